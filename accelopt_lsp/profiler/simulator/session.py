"""One run of one kernel: allocations, calls, and the trace they leave.

A call whose result is a fresh tile is held back until the next one, because
``tile[...] = nisa.op(...)`` writes straight into ``tile`` and ``psum += nl.matmul(...)`` adds
up in place: only then is it known where the result goes.
"""

from __future__ import annotations

import sys
from math import prod
from operator import attrgetter
from types import FrameType
from typing import TYPE_CHECKING, Any

from accelopt_lsp.nki.dialects import Api, Dialect, unavailable
from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.lowering import RESULT, Issue
from accelopt_lsp.nki.operands import Buffer, OperandType, row_major_strides
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.profiler.simulator import assignment, loop_reductions, masking, sums
from accelopt_lsp.profiler.simulator.abridging_values import LoopValue
from accelopt_lsp.profiler.simulator.calls import Calls, keyed
from accelopt_lsp.profiler.simulator.elements import Array
from accelopt_lsp.profiler.simulator.errors import InstructionLimit, KernelRejected
from accelopt_lsp.profiler.simulator.following import follow
from accelopt_lsp.profiler.simulator.indexing import _NEST, Affine
from accelopt_lsp.profiler.simulator.library import entry_of
from accelopt_lsp.profiler.simulator.masks import Mask, holds
from accelopt_lsp.profiler.simulator.memory import Memory
from accelopt_lsp.profiler.simulator.pending import Pending
from accelopt_lsp.profiler.simulator.plans import Entry, Plan, Step, build
from accelopt_lsp.profiler.simulator.replay import Operation
from accelopt_lsp.profiler.simulator.run_time import combined, masked
from accelopt_lsp.profiler.simulator.sharing import SharedTensors
from accelopt_lsp.profiler.simulator.slots import resolve as slots_of
from accelopt_lsp.profiler.simulator.source import Site, Sources
from accelopt_lsp.profiler.simulator.tensors import Tensor, operand_type
from accelopt_lsp.profiler.simulator.trace import Storage, Template, Trace
from accelopt_lsp.profiler.simulator.values import compute

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.abridging import Abridging
    from accelopt_lsp.profiler.simulator.cores import Cores

RECORDED_INSTRUCTIONS = 1_000_000
"""Longer runs are not kept for replay, which takes about 500 bytes an instruction."""


_REGION = attrgetter("_region")


class Session:
    """Runs the calls of one kernel.

    Attributes:
        full: compute values; otherwise only shapes are followed.
        recording: instructions with their operands, to be computed later (see
            :mod:`~accelopt_lsp.profiler.simulator.replay`); None where nobody will.
        inputs: tensors of the kernel's arguments, in order.
        tracing: append records (off for programs of a grid that run elsewhere, and for
            further seeds).
        following: compute what depends on inputs with values alone (see
            :mod:`~accelopt_lsp.profiler.simulator.following`), though only shapes are traced.
        in_order: how many ``nl.no_reorder`` blocks are open.
        shared: tensors that the programs of a grid have in common.
        cores: the programs of the grid, while they run.
        core: number of the core whose programs are traced.
        launch: how many programs ran on how many cores.
        elsewhere: what the running program issues, if another core runs it than the traced one.
        nki_version: NKI version in force; None takes whatever any version of the dialect has.
        placed: line of the first tile that the kernel placed by direct allocation (legacy).
        hbm_tensors: tensors that it created in HBM: allocation, memory, name, line.
        abridged: loops may be continued from a few of their iterations.
        abridging: what does so; None where all iterations run.
    """

    def __init__(
        self,
        target: Target,
        dialect: Dialect,
        sources: Sources,
        *,
        full: bool,
        instruction_limit: int = 5_000_000,
        names: dict[Any, str] | None = None,
        abridged: bool = False,
    ) -> None:
        self.target = target
        self.dialect = dialect
        self.sources = sources
        self.full = full
        self.recording: list[Operation] | None = None
        self.inputs: list[Tensor] = []
        self.tracing = True
        self.instruction_limit = instruction_limit
        self.names = names if names is not None else {}
        self.trace = Trace(dialect)
        self.records = self.trace.records
        self.pending: Pending | None = None
        self._sites = sources.sites
        self.calls: dict[tuple[Any, ...], Calls] = {}
        self.notes: dict[str, None] = {}
        self.grid: tuple[int, ...] = ()
        self.program: tuple[int, ...] = ()
        self.following = False
        self.in_order = 0
        self.shared = SharedTensors()
        self.cores: Cores | None = None
        self.core = 0
        self.launch: str | None = None
        self.elsewhere: list[Issue] | None = None
        self.nki_version: str | None = None
        self.placed: int | None = None
        self.hbm_tensors: list[tuple[int, str, str, int]] = []
        self._forms: dict[tuple[Any, ...], tuple[int, int, tuple[int, ...], OperandType]] = {}
        self._templates: dict[tuple[Any, ...], int] = {}
        self._storage_sites: dict[tuple[int, str], int] = {}
        self._constants: dict[tuple[Any, ...], Tensor] = {}
        self.running: dict[tuple[int, tuple[int, ...]], loop_reductions.Running] = {}
        self.accumulators: dict[str, Array] = {}
        self._partitions = target.integer("partitions")
        self._sbuf = target.integer("sbuf_partition_bytes")
        self._psum = target.integer("psum_partition_bytes")
        self.issued = 0
        self.abridged = abridged
        self.abridging: Abridging | None = None

    def begin_values(self) -> None:
        """Engine state that lives on between instructions is as it was at the start."""
        self.accumulators.clear()

    @property
    def valued(self) -> bool:
        """Values are computed, now or later."""
        return self.full or self.recording is not None

    # Allocation.

    def allocate(
        self,
        shape: tuple[int, ...],
        element: DType,
        buffer: Buffer,
        *,
        name: str,
        line: int,
        site: int,
        external: bool = False,
        pinned: tuple[int, int] | None = None,
        born: int | None = None,
    ) -> Tensor:
        """A new tensor in memory of its own.

        Raises:
            KernelRejected: no such tile fits the hardware.
        """
        form = self._forms.get((shape, element.name, buffer))
        if form is None:
            form = self._form(shape, element, buffer)
        rows, row, strides, operand = form
        storages = self.trace.storages
        memory = Memory(len(storages), buffer, element, rows, row, name, line)
        storages.append(
            Storage(
                memory.id,
                name,
                buffer,
                row * element.nbytes,
                rows,
                line,
                site,
                len(self.records) if born is None else born,
                external,
                pinned,
                len(_NEST),
            )
        )
        tensor = Tensor(memory, shape, strides, 0, element, buffer)
        tensor.operand = operand
        if buffer is not Buffer.HBM:
            tensor._region = (memory.id, 0, rows, 0, row * element.nbytes)
        return tensor

    def _form(
        self, shape: tuple[int, ...], element: DType, buffer: Buffer
    ) -> tuple[int, int, tuple[int, ...], OperandType]:
        row = max(prod(shape[1:]), 1)
        if buffer is not Buffer.HBM:
            self._check_tile(shape, row * element.nbytes, buffer)
        strides = row_major_strides(shape)
        operand = operand_type(shape, strides, element, buffer, 0)
        made = (shape[0] if shape else 1, row, strides, operand)
        self._forms[(shape, element.name, buffer)] = made
        return made

    def _check_tile(self, shape: tuple[int, ...], partition_bytes: int, buffer: Buffer) -> None:
        if len(shape) < 2:
            raise KernelRejected(
                f"a tile needs a partition and a free dimension, got shape {list(shape)}; write "
                f"{[*shape, 1]}",
                "R041",
            )
        if any(n < 1 for n in shape):
            raise KernelRejected(f"sizes must be positive, got {list(shape)}")
        if shape[0] > self._partitions:
            raise KernelRejected(
                f"a tile has at most {self._partitions} partitions, got {shape[0]} "
                f"(shape {list(shape)}); loop over tiles of {self._partitions}",
                "R023",
            )
        if buffer is Buffer.SBUF and partition_bytes > self._sbuf:
            raise KernelRejected(
                f"a tile of {partition_bytes} bytes a partition does not fit SBUF "
                f"({self._sbuf} bytes); split its free axes",
                "R051",
            )
        if buffer is Buffer.PSUM and partition_bytes > self._psum:
            raise KernelRejected(
                f"a tile of {partition_bytes} bytes a partition does not fit PSUM "
                f"({self._psum} bytes); split its free axes",
                "R051",
            )

    def storage_site(self, site: Site, slot: str = "") -> int:
        """Number shared by all allocations of one call instruction and slot."""
        key = (site.id, slot)
        found = self._storage_sites.get(key)
        if found is None:
            found = self._storage_sites[key] = len(self._storage_sites)
        return found

    def locate(self, frame: FrameType) -> tuple[Site, int]:
        """The call site a frame of user code is at, and its line in the kernel's file."""
        site = self._sites.get((id(frame.f_code), frame.f_lasti))
        if site is None:
            site = self.sources.site(frame)
        line = site.line
        return site, self.sources.line(site, frame) if line is None else line

    # Calls.

    def call(
        self, entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType
    ) -> Any:
        """Bind and run one call of a public function."""
        if self.pending is not None:
            self.flush()
        return self.invoke(entry, entry.bind(args, kwargs), frame)

    def invoke(self, entry: Entry, bound: dict[str, Any], frame: FrameType) -> Any:
        """Run a bound call; gives the returned tile, if it returns one."""
        mask = bound.get("mask")
        if mask is not None and mask is not True and self.dialect is Dialect.LEGACY:
            if type(mask) is not Mask or not mask.holds_throughout():
                return masking.masked_call(self, entry, bound, frame)
            bound["mask"] = None
        plan = self.plan(entry, bound)
        lowered = plan.lowered
        site, line = self.locate(frame)
        result = lowered.result
        if result is None:
            self.run(plan, bound, None, site, line)
            return None
        if lowered.view_of is not None:
            return self._view_of(lowered.view_of, result.shape, result.layout, bound)
        tensor = Tensor(None, result.shape, plan.strides, 0, result.dtype, result.buffer)
        self.pending = Pending(plan, bound, tensor, frame, site, line)
        return tensor

    def plan(self, entry: Entry, bound: dict[str, Any]) -> Plan:
        """The prepared call."""
        if self.abridging is not None:
            for name, value in bound.items():
                if type(value) is LoopValue:
                    bound[name] = value.fix()
        values = list(bound.values())
        kinds = (entry, *map(type, values))
        calls = self.calls.get(kinds)
        if calls is None:
            calls = self.calls[kinds] = Calls(kinds[1:])
        for at in calls.tensors:
            tensor = values[at]
            # Equal descriptors are one object.
            values[at] = id(tensor.operand or tensor.typed())
        for at in calls.others:
            if values[at] != ():
                values[at] = keyed(values[at])
        key = tuple(values)
        try:
            found = calls.plans.get(key)
        except TypeError:
            return self._build(entry, bound)
        if found is None:
            found = calls.plans[key] = self._build(entry, bound)
        return found

    def require(self, entry: Api) -> None:
        """See that the NKI version in force has a name.

        Raises:
            KernelRejected: it does not, or no longer.
        """
        if self.nki_version is None or entry.signature(self.dialect) is None:
            return
        problem = unavailable(entry, self.dialect, self.nki_version)
        if problem:
            raise KernelRejected(problem, "R104")

    def _build(self, entry: Entry, bound: dict[str, Any]) -> Plan:
        self.require(entry.api)
        plan = build(entry, bound, self.target, self.names)
        for note in plan.lowered.notes:
            self.notes.setdefault(note)
        return plan

    def _unplaced(self, shape: tuple[int, ...], element: DType, buffer: Buffer) -> Tensor:
        return Tensor(None, shape, row_major_strides(shape), 0, element, buffer)

    def _view_of(
        self, slot: str, shape: tuple[int, ...], layout: tuple[int, ...], bound: dict[str, Any]
    ) -> Tensor:
        source: Tensor = bound[slot.partition("@")[0]]
        source.settle()
        strides = layout
        if source.buffer is not Buffer.HBM:
            strides = (source.strides[0], *layout[1:])
        return source.derived(shape, strides, source.offset)

    def flush(self) -> None:
        """Run the call that was held back, into memory of its own."""
        pending = self.pending
        if pending is None:
            return
        self.pending = None
        if pending.reduces is not None:
            loop_reductions.place(self, pending)
            return
        result = pending.result
        self._place(result, pending.site, pending.line)
        if pending.empty:
            result.settle().masked = True
            return
        self._run_pending(pending, pending.plan, result)

    def _place(self, result: Tensor, site: Site, line: int) -> None:
        """Give a result memory of its own."""
        made = self.allocate(
            result.shape,
            result.element,
            result.buffer,
            name=site.target or "result",
            line=line,
            site=self.storage_site(site, RESULT),
        )
        result.memory = made.memory
        result.strides = made.strides
        result.operand = None

    def _run_pending(
        self, pending: Pending, plan: Plan, target: Tensor, *, accumulates: bool = False
    ) -> None:
        where = None
        if pending.cut or pending.where:
            target.settle().masked = True
        for axis, low, high in pending.cut:
            if axis < target.ndim and target.shape[axis] > 1:
                target = target.narrow(axis, low, high)
        if pending.where and target.fault is not None:
            target = masked(target, pending.where)
        if pending.where and self.valued:
            where = holds(pending.where, target.shape)
        self.run(
            plan,
            pending.bound,
            target,
            pending.site,
            pending.line,
            accumulates=accumulates,
            where=where,
        )

    def run(
        self,
        plan: Plan,
        bound: dict[str, Any],
        result: Tensor | None,
        site: Site,
        line: int,
        *,
        accumulates: bool = False,
        where: Array | None = None,
    ) -> None:
        """Issue the instructions of a call."""
        if plan.simple:
            step = plan.steps[0]
            if step.is_matmul and not accumulates and self.dialect is not Dialect.LEGACY:
                accumulates = sums.accumulates(self, step, bound, result)
            self._issue(plan, 0, step, bound, result, line, accumulates, accumulates, where)
            return
        slots = slots_of(self, plan, bound, result, site, line)
        last = len(plan.steps) - 1
        for number, step in enumerate(plan.steps):
            adds = accumulates and number == last
            masked = None
            if where is not None and (step.into_result or _writes_destination(step)):
                masked = where
            self._issue(plan, number, step, slots, None, line, accumulates, adds, masked)

    def _issue(
        self,
        plan: Plan,
        number: int,
        step: Step,
        operands: dict[str, Any],
        result: Tensor | None,
        line: int,
        variant: bool,
        accumulates: bool,
        where: Array | None,
    ) -> None:
        """Trace one instruction, and compute it or note it down for later.

        Args:
            variant: which templates of the plan: those of a call that accumulates or not.
        """
        self.issued += 1
        if self.issued > self.instruction_limit:
            raise InstructionLimit(
                f"more than {self.instruction_limit} instructions were issued; "
                "the kernel looks endless",
                line,
            )
        if result is not None:
            operands[RESULT] = result
        tensors = tuple(map(operands.__getitem__, step.slots))
        if self.tracing:
            templates = plan.templates.get((line, variant))
            if templates is None:
                templates = self._register(plan, line, variant)
            regions = tuple(map(_REGION, tensors))
            if None in regions:
                regions = tuple([t._region or t.region() for t in tensors])
            self.records.append((templates[number], regions))
        elif self.elsewhere is not None:
            self.elsewhere.append(step.issue)
        if self.full:
            compute(self, step, tensors, line, accumulates, where)
        elif self.following:
            follow(self, step, tensors, line, accumulates, where)
        elif self.recording is not None:
            if self.issued > RECORDED_INSTRUCTIONS:
                self.recording = None
                return
            self.recording.append((step, tensors, line, accumulates, where))
            for _, at in step.writes:
                memory = tensors[at].memory
                if memory is not None:
                    memory.writes += 1

    def _register(self, plan: Plan, line: int, accumulates: bool) -> tuple[int, ...]:
        numbers = []
        last = len(plan.steps) - 1
        for position, step in enumerate(plan.steps):
            adds = accumulates and position == last
            key = (step.issue, line, adds, step.patterns, step.types)
            found = self._templates.get(key)
            if found is None:
                found = self._templates[key] = len(self.trace.templates)
                self.trace.templates.append(
                    Template(step.issue, line, adds, step.patterns, step.types)
                )
            numbers.append(found)
        made = plan.templates[(line, accumulates)] = tuple(numbers)
        return made

    # Assignment and operators, called from methods of tensors: user code is two frames up.

    assign = assignment.assign

    def augment(self, name: str, tensor: Tensor, other: Any) -> Any:
        """``tensor += other`` and its siblings."""
        return assignment.augment(self, name, tensor, other, sys._getframe(2))

    def operator(self, name: str, *args: Any) -> Any:
        """``a + b`` and its siblings."""
        if len(args) == 2 and self.dialect is Dialect.LEGACY:
            if isinstance(args[0], Affine) or isinstance(args[1], Affine):
                return combined(name, *args)
            assignment.check_operator(name, *args)
        return self.call(entry_of(name, self.dialect), args, {}, sys._getframe(2))

    def broadcast(self, tensor: Tensor, shape: tuple[int, ...]) -> Any:
        """``tensor.broadcast_to(shape)``: ``nl.broadcast_to``."""
        entry = entry_of("nl.broadcast_to", self.dialect)
        return self.call(entry, (tensor,), {"shape": shape}, sys._getframe(2))

    def copy(self, tensor: Tensor, dtype: Any) -> Any:
        """``tensor.astype(dtype)``: ``nl.copy``."""
        entry = entry_of("nl.copy", self.dialect)
        return self.call(entry, (tensor,), {"dtype": dtype}, sys._getframe(2))


def _writes_destination(step: Step) -> bool:
    """Whether an instruction writes the tensor that the call names as its destination."""
    return any(step.slots[at] == "dst" for _, at in step.writes)
