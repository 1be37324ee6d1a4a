"""What keeps an engine from its rate: short or narrow instructions, slow modes, shared ports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from attrs import evolve

from accelopt_lsp.analysis.machine import Record
from accelopt_lsp.analysis.rules.base import Context
from accelopt_lsp.analysis.rules.slow import (
    SlowRule,
    matters,
    percent,
    turning,
)
from accelopt_lsp.analysis.sites import Site
from accelopt_lsp.nki.costs import instruction_cost, performance_mode
from accelopt_lsp.nki.diagnostics import Diagnostic, Fix, Severity
from accelopt_lsp.nki.lowering import Issue
from accelopt_lsp.nki.operands import Buffer, Engine, OperandType
from accelopt_lsp.nki.ports import PORT_RIVALS, PSUM_PORT, SBUF_PORT, held_ports
from accelopt_lsp.nki.targets import Target

STREAMING = (Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD)
GOOD_FREE_SIZE = 512
"""Elements a partition at which fixed costs have become small."""
SHORT = 128
"""Elements a partition below which fixed costs dominate (nki performance guide)."""
WIDE_STRIDE = 16
"""Bytes between elements from which on the memories give half their bandwidth."""


def _cost(issue: Issue, target: Target, elements: int | None = None) -> float:
    """Busy time of an instruction, or of one that is as long as ``elements``."""
    work = issue.work if elements is None else evolve(issue.work, elements=elements)
    found = instruction_cost(issue.op, issue.engine, work, target)
    return 0.0 if found is None else found.busy_ns


class ShortInstruction(SlowRule):
    """## What it does
    Finds many instructions on fewer than 128 elements a partition, in a loop over more of them.

    ## Why
    Every instruction has a fixed cost of 60 to 100 cycles. On 32 elements a partition the engine
    spends most of its time on that.

    ## Example
    ```python
    for j in range(64):
        nisa.tensor_scalar(dst=out[:, j * 32 : (j + 1) * 32], data=x[:, j * 32 : (j + 1) * 32], ...)
    ```

    ## Use instead
    ```python
    nisa.tensor_scalar(dst=out, data=x, ...)  # all 2048 columns at once
    ```
    A `tensor_tensor_scan` takes the place of a loop in which each column needs the one before.
    """

    code = "P05"
    name = "short-instruction"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        target = context.machine.target
        for site in context.sites:
            record = site.record
            around = [v for v in turning(record.loops) if _moves(record, v.name)]
            if not around or site.runs < 16:
                continue
            spent = saved = 0.0
            engine = ""
            longest = 0
            for issue, times in site.issues():
                elements = issue.work.elements
                if issue.engine not in STREAMING or not 1 < elements < SHORT:
                    continue
                factor = min(-(-GOOD_FREE_SIZE // elements), around[-1].trips)
                now = times * _cost(issue, target)
                wide = times / factor * _cost(issue, target, elements * factor)
                spent, saved = spent + now, saved + now - wide
                engine, longest = issue.engine.value, max(longest, elements)
            if not spent:
                continue
            share = matters(context, engine, saved)
            loop = around[-1]
            text = (
                f"{site.runs} instructions of {longest} elements a partition: "
                f"{percent(saved / spent)} of their time is fixed cost; take several iterations "
                f"of the loop over {loop.name} at once"
            )
            wanted = -(-GOOD_FREE_SIZE // longest)
            divisors = [n for n in range(2, loop.trips + 1) if loop.trips % n == 0]
            factor = next((n for n in divisors if n >= wanted), loop.trips)
            fix = Fix(
                f"Do {factor} iterations at once",
                "widen-tile",
                {"line": loop.line, "factor": factor},
            )
            related = (context.related(loop.line, f"{loop.trips} iterations"),)
            yield from self.report(context, site.node, share, text, fix=fix, related=related)


def _moves(record: Record, name: str) -> bool:
    """Some operand of a call is at another place in each iteration of a loop."""
    from accelopt_lsp.analysis.affine import terms_of

    return any(
        v.name == name
        for view in record.views.values()
        for index in (view.offset, *view.block)
        for v, _ in terms_of(index)
    )


class FewPartitions(SlowRule):
    """## What it does
    Finds instructions that matter for the kernel's time and use at most 64 of 128 partitions.

    ## Why
    An instruction takes the same time on 1 partition as on 128: the other lanes idle.

    ## Example
    ```python
    nisa.activation(dst=out, op=nl.exp, data=tile[0:32, :])  # 4 x as long as needed
    ```

    ## Use instead
    Lay out the data over 128 partitions: two tiles of 64 rows as one tile of 128.
    """

    code = "P06"
    name = "few-partitions"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        target = context.machine.target
        for site in context.sites:
            busy: dict[str, float] = defaultdict(float)
            used = 0
            for issue, times in site.issues():
                work = issue.work
                spread = issue.op == "nc_matmul" and work.partitions == 1
                if work.dma is None and 0 < work.partitions <= 64 and work.elements and not spread:
                    lost = 1 - work.partitions / 128
                    busy[issue.engine.value] += times * lost * _cost(issue, target)
                    used = max(used, work.partitions)
            if not busy:
                continue
            engine, saved = max(busy.items(), key=lambda item: item[1])
            share = matters(context, engine, saved)
            text = (
                f"uses {used} of 128 partitions: {percent(saved / context.latency_ns)} of the "
                f"estimated time goes to idle lanes; {128 // used} times as much fits one "
                "instruction"
            )
            yield from self.report(context, site.node, share, text)


class ThinStationary(SlowRule):
    """## What it does
    Finds products of a narrow stationary operand with a long moving one.

    ## Why
    The Tensor Engine streams the moving operand, a column a cycle, and loads a stationary operand
    four times as fast. A stationary operand of a few columns leaves most of the array idle for
    each of the many moving columns.

    ## Example
    ```python
    nisa.nc_matmul(dst=acc, stationary=vector[128, 1], moving=matrix[128, 512])  # 512 cycles
    ```

    ## Use instead
    ```python
    for j in range(4):  # 4 x 64 cycles
        nisa.nc_matmul(dst=acc[j], stationary=matrix[:, j * 128 : (j + 1) * 128], moving=vector)
    ```
    """

    code = "P08"
    name = "thin-stationary"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        for site in context.sites:
            saved = spent = 0.0
            columns = moving = 0
            for issue, times in site.issues():
                work = issue.work
                if issue.op != "nc_matmul" or work.is_transpose or work.partitions < 2:
                    continue
                if work.stationary_columns > 32 or work.elements < 128:
                    continue
                now = times * _cost(issue, context.machine.target)
                swapped = max(64, work.stationary_columns) / 128
                spent, saved = spent + now, saved + now * (1 - swapped)
                columns, moving = work.stationary_columns, work.elements
            if not spent:
                continue
            share = matters(context, Engine.TENSOR.value, saved)
            text = (
                f"{columns} stationary columns against {moving} moving ones use "
                f"{percent(columns / 128)} of the array; swap the operands: the long one "
                f"stationary in tiles of 128, the short one moving, half the cycles"
            )
            yield from self.report(context, site.node, share, text)


class Float32Product(SlowRule):
    """## What it does
    Finds float32 products in kernels that the Tensor Engine bounds.

    ## Why
    The Tensor Engine takes four passes for float32 and one for bfloat16 and float16.

    ## Example
    ```python
    nisa.nc_matmul(dst=acc, stationary=w_f32, moving=x_f32)
    ```

    ## Use instead
    Cast the operands to bfloat16, if the kernel's accuracy allows it; PSUM adds up in float32 all
    the same.
    """

    code = "P12"
    name = "float32-product"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        for site in context.sites:
            spent = sum(
                times * _cost(issue, context.machine.target)
                for issue, times in site.issues()
                if issue.op == "nc_matmul"
                and not issue.work.is_transpose
                and issue.work.passes == 4
                and issue.work.partitions > 1
            )
            share = matters(context, Engine.TENSOR.value, 0.75 * spent)
            if share < 0.2:
                continue
            text = (
                f"float32 products take four passes, {percent(spent / context.latency_ns)} of the "
                "estimated time; bfloat16 takes one, where the accuracy allows it"
            )
            yield from self.report(context, site.node, share, text, most=Severity.INFORMATION)


class StridedOperand(SlowRule):
    """## What it does
    Finds operands whose neighbouring elements lie more than 16 bytes apart.

    ## Why
    SBUF and PSUM give half their bandwidth to such accesses.

    ## Example
    ```python
    nisa.tensor_copy(dst=out, src=tile[:, 0:4096:8])  # every eighth float32
    ```

    ## Use instead
    A layout in which the innermost dimension is contiguous: exchange the loops, or write the tile
    that way in the first place.
    """

    code = "P13"
    name = "strided-operand"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        for site in context.sites:
            busy: dict[str, float] = defaultdict(float)
            worst: tuple[int, str] = (0, "")
            for record in site.records:
                for issue in record.lowered.issues:
                    if issue.engine not in STREAMING or issue.work.dma is not None:
                        continue
                    wide = [
                        (gap, slot)
                        for _, slot in issue.operands
                        if (gap := _gap(record.lowered.types[slot])) > WIDE_STRIDE
                    ]
                    if wide:
                        worst = max(worst, *wide)
                        cost = _cost(issue, context.machine.target)
                        busy[issue.engine.value] += record.times * cost / 2
            if not busy:
                continue
            engine, saved = max(busy.items(), key=lambda item: item[1])
            gap, slot = worst
            text = (
                f"neighbouring elements of {slot} lie {gap} bytes apart; from {WIDE_STRIDE} bytes "
                "on the memory gives half its bandwidth"
            )
            share = matters(context, engine, saved)
            yield from self.report(context, site.node, share, text, most=Severity.INFORMATION)


def _gap(tile: OperandType) -> int:
    """Bytes between neighbouring elements of the innermost free axis; 0 if there is none."""
    if not tile.buffer.on_chip or tile.dynamic is not None:
        return 0
    for size, stride in zip(reversed(tile.shape[1:]), reversed(tile.layout[1:]), strict=True):
        if size > 1:
            return abs(stride) * tile.dtype.nbytes if size >= 16 else 0
    return 0


class SharedPort(SlowRule):
    """## What it does
    Finds kernels in which two engines take turns at a port so much that this bounds them.

    ## Why
    On Trainium 1 Vector and GpSimd cannot access SBUF at the same time, nor can Vector and Scalar
    access PSUM; from Trainium 2 on, only Vector's performance modes share a bus with GpSimd.

    ## Example
    ```python
    nisa.tensor_tensor(dst=a, data1=x, data2=y, op=nl.add, engine=nisa.gpsimd_engine)
    nisa.tensor_tensor(dst=b, data1=x, data2=y, op=nl.multiply)  # Vector waits for GpSimd
    ```

    ## Use instead
    Give all work on that memory to one engine, or move work of the other one to an engine that
    does not share the port.
    """

    code = "P15"
    name = "shared-port"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        ceilings = context.workload.ceilings_ns
        for port, name in ((SBUF_PORT, "sbuf port"), (PSUM_PORT, "psum port")):
            whole = ceilings.get(name, 0.0)
            others = max((ns for k, ns in ceilings.items() if k != name), default=0.0)
            if whole <= others:
                continue
            first, second = PORT_RIVALS[port]
            holders = {e: self._held(context, e, port) for e in (first, second)}
            least = min(holders, key=lambda e: sum(ns for _, ns in holders[e]))
            site, _ = max(holders[least], key=lambda item: item[1])
            other = second if least is first else first
            memory = "SBUF" if port == SBUF_PORT else "PSUM"
            text = (
                f"{least.value} and {other.value} take turns at {memory}: "
                f"{percent(whole / context.latency_ns)} of the estimated time for both, "
                f"{percent(others / context.latency_ns)} if they could work side by side; keep "
                f"work on {memory} on one of them"
            )
            share = (whole - others) / context.latency_ns
            aside = Engine.SCALAR if port == SBUF_PORT else other
            fix = Fix(
                f"Run this on the {aside.value} engine",
                "swap-engine",
                {"line": site.line, "engine": aside.value},
            )
            yield from self.report(context, site.node, share, text, fix=fix)

    def _held(self, context: Context, engine: Engine, port: int) -> list[tuple[Site, float]]:
        target = context.machine.target
        found = []
        for site in context.sites:
            spent = sum(
                times * _cost(issue, target)
                for issue, times in site.issues()
                if issue.engine is engine
                and held_ports(issue.op, engine, issue.work, target) & port
            )
            if spent:
                found.append((site, spent))
        return found


class SlowMode(SlowRule):
    """## What it does
    Finds Vector instructions that miss a performance mode which one of their operands prevents.

    ## Why
    From Trainium 2 on `tensor_copy` and `tensor_scalar` run four times as fast on 16-bit tiles
    that are contiguous in SBUF, twice as fast on other contiguous tiles in SBUF. One operand of
    another type, in PSUM or with gaps keeps the instruction from that.

    ## Example
    ```python
    nisa.tensor_copy(dst=bf16_tile, src=bf16_rows[:, 0:1024:2])  # every second element
    ```

    ## Use instead
    16-bit tiles in SBUF, contiguous in their innermost dimension, for all operands.
    """

    code = "P16"
    name = "slow-mode"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        target = context.machine.target
        for site in context.sites:
            saved = 0.0
            now, best, why = 1.0, 1.0, ""
            for record in site.records:
                for issue in record.lowered.issues:
                    if issue.engine is not Engine.VECTOR:
                        continue
                    mode = performance_mode(issue.op, issue.work, target)
                    if mode is None:
                        continue
                    reason, reachable = _prevented(record, issue, target)
                    if reason and reachable > mode:
                        cost = _cost(issue, target)
                        saved += record.times * cost * (1 - mode / reachable)
                        now, best, why = mode, reachable, reason
            if not why:
                continue
            share = matters(context, Engine.VECTOR.value, saved)
            text = f"runs at {now:g}x where {best:g}x is possible: {why}"
            yield from self.report(context, site.node, share, text)


def _prevented(record: Record, issue: Issue, target: Target) -> tuple[str, float]:
    """What keeps an instruction from a faster mode, and how fast that would be.

    Nothing where all operands have 32 bits: another type would change the result.
    """
    types = {
        role: record.lowered.types[slot]
        for role, slot in issue.operands
        if record.lowered.types[slot].free > 1
    }
    work = issue.work
    narrow = [t for t in types.values() if t.dtype.is_16bit_float]
    if narrow and len(narrow) < len(types):
        role, given = next((r, t) for r, t in types.items() if not t.dtype.is_16bit_float)
        best = performance_mode(issue.op, evolve(work, all_16bit=True, element_bytes=2), target)
        return f"{role} is {given.dtype.name}, the others have 16 bits", best or 1.0
    if not work.contiguous:
        best = performance_mode(issue.op, evolve(work, contiguous=True), target)
        return "an operand is not contiguous in its innermost dimension", best or 1.0
    if narrow and Buffer.PSUM in {t.buffer for t in types.values()}:
        return "", 1.0
    return "", 1.0


class VectorReciprocal(SlowRule):
    """## What it does
    Finds reciprocals of large tiles on the Vector Engine.

    ## Why
    The Vector Engine takes several cycles for each reciprocal (8 as documented); the Scalar
    Engine takes one, with the accuracy of its tables.

    ## Example
    ```python
    nisa.reciprocal(dst=inverse, data=tile)  # [128, 2048]
    ```

    ## Use instead
    ```python
    nisa.activation(dst=inverse, op=nl.reciprocal, data=tile)
    ```
    """

    code = "P18"
    name = "vector-reciprocal"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        target = context.machine.target
        for site in context.sites:
            saved = spent = 0.0
            elements = 0
            for issue, times in site.issues():
                if issue.op != "reciprocal" or issue.work.elements < 64:
                    continue
                other = instruction_cost("activation", Engine.SCALAR, issue.work, target)
                now = _cost(issue, target)
                spent += times * now
                saved += times * max(0.0, now - (other.busy_ns if other is not None else now))
                elements = max(elements, issue.work.elements)
            if not spent:
                continue
            factor = target["vector_reciprocal_factor"]
            text = (
                f"reciprocals of {elements} elements a partition take {factor:g} cycles each on "
                f"Vector, {percent(spent / context.latency_ns)} of the estimated time; Scalar "
                "takes one (activation with nl.reciprocal), where its accuracy is enough"
            )
            share = matters(context, Engine.VECTOR.value, saved)
            yield from self.report(context, site.node, share, text)
