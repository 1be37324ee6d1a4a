"""The executed instruction stream in compact form: what every pass of the timeline works on.

A trace holds what a kernel issues. Passes (merging, spills) turn it into what the hardware
executes; they exchange a :class:`Stream`, whose columns are plain lists, because kernels issue
hundreds of thousands of instructions.
"""

from __future__ import annotations

from enum import IntEnum

from attrs import define, evolve, field, frozen

from accelopt_lsp.nki.costs import instruction_cost
from accelopt_lsp.nki.instructions import INSTRUCTIONS
from accelopt_lsp.nki.lowering import Issue
from accelopt_lsp.nki.operands import Buffer, Engine
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.nki.work import DmaWork, Route, Work
from accelopt_lsp.profiler.simulator.trace import Patterns, Region, Storage, Template, Trace


class Queue(IntEnum):
    """In-order instruction queues: four compute engines and the queues that trigger DMAs.

    Stores have a queue of their own, so that one that waits for its data never holds up loads; so
    have spills and their re-loads, which the engines that make and use the data trigger.
    """

    TENSOR = 0
    VECTOR = 1
    SCALAR = 2
    GPSIMD = 3
    LOAD = 4
    STORE = 5
    SAVE = 6
    RELOAD = 7


COMPUTE_QUEUES = 4
QUEUE_NAMES = (
    "tensor",
    "vector",
    "scalar",
    "gpsimd",
    "dma loads",
    "dma stores",
    "dma spills",
    "dma re-loads",
)
_QUEUE_OF_ENGINE = {
    Engine.TENSOR: Queue.TENSOR,
    Engine.VECTOR: Queue.VECTOR,
    Engine.SCALAR: Queue.SCALAR,
    Engine.GPSIMD: Queue.GPSIMD,
}


@frozen(slots=True)
class Op:
    """What all executions of one template share.

    Attributes:
        name: instruction id, or ``spill_save``, ``spill_reload``, ``reload``.
        queue: queue that it waits in.
        busy_ns: time its engine (for a DMA: each of its DMA engines) is occupied.
        latency_ns: further time until the result can be used.
        engines: DMA engines it uses; 0 for compute instructions.
        reads, writes: positions of its operands that are read and written.
        accumulates: the destination is added to.
        line: source line.
        work: what it has to do, for counters.
        unknown: no source gives its cost; ``busy_ns`` is 0 then.
        template: index in the trace's templates, or -1 if the compiler adds it.
        issue: the issued instruction, or None if the compiler adds it.
        patterns: which elements of their regions its operands are, as of the trace's templates.
        absent: takes no time at all, not even its queue's: it is only tried how that would be.
    """

    name: str
    queue: Queue
    busy_ns: float
    latency_ns: float
    engines: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    accumulates: bool
    line: int
    work: Work
    unknown: bool = False
    template: int = -1
    issue: Issue | None = None
    patterns: Patterns = ()
    absent: bool = False

    @property
    def engine_name(self) -> str:
        """Engine for reports: all transfers are ``dma``."""
        return "dma" if self.engines else QUEUE_NAMES[self.queue]


@define(slots=True)
class Stream:
    """Executed instructions in program order.

    ``codes[i]`` indexes :attr:`ops`; ``regions[i]`` are the operands' regions.
    """

    ops: list[Op] = field(factory=list)
    storages: list[Storage] = field(factory=list)
    codes: list[int] = field(factory=list)
    regions: list[tuple[Region, ...]] = field(factory=list)

    def __len__(self) -> int:
        return len(self.codes)

    def same_tables(self) -> Stream:
        """An empty stream that shares the tables of ops and storages."""
        return Stream(self.ops, self.storages)


def queue_of(engine: Engine, work: Work) -> Queue:
    """Queue of an instruction: transfers by direction, the rest by engine."""
    if work.dma is not None:
        return Queue.LOAD if work.dma.route is Route.LOAD else Queue.STORE
    return _QUEUE_OF_ENGINE.get(engine, Queue.GPSIMD)


def stream_of(trace: Trace, target: Target) -> Stream:
    """The issued stream with the costs of ``target``."""
    stream = Stream(storages=list(trace.storages))
    for index, template in enumerate(trace.templates):
        stream.ops.append(_op(index, template, target))
    stream.codes = [code for code, _ in trace.records]
    stream.regions = [regions for _, regions in trace.records]
    return stream


def _op(index: int, template: Template, target: Target) -> Op:
    issue = template.issue
    cost = instruction_cost(issue.op, issue.engine, issue.work, target)
    dma = issue.work.dma
    written = []
    spec = INSTRUCTIONS[issue.op]
    for role, _ in issue.operands:
        operand = spec.operand(role)
        written.append(operand is not None and operand.written)
    return Op(
        name=issue.op,
        queue=queue_of(issue.engine, issue.work),
        busy_ns=cost.busy_ns if cost else 0.0,
        latency_ns=cost.latency_ns if cost else 0.0,
        engines=dma.engines if dma else 0,
        reads=tuple(i for i, w in enumerate(written) if not w),
        writes=tuple(i for i, w in enumerate(written) if w),
        accumulates=template.accumulates,
        line=template.line,
        work=issue.work,
        unknown=cost is None,
        template=index,
        issue=issue,
        patterns=template.patterns,
    )


def recosted(op: Op, target: Target) -> Op:
    """The same instruction at the costs of ``target``."""
    if op.issue is None:
        cost = instruction_cost("dma_copy", Engine.DMA, op.work, target)
    else:
        cost = instruction_cost(op.name, op.issue.engine, op.work, target)
    if cost is None:
        return op
    return evolve(op, busy_ns=cost.busy_ns, latency_ns=cost.latency_ns)


def transfer_op(
    name: str, storage: Storage, route: Route, queue: Queue, line: int, target: Target
) -> Op:
    """A transfer of a whole on-chip storage that the compiler adds: a spill or a re-load."""
    rows = max(1, min(storage.partitions, 128))
    size = rows * storage.partition_bytes
    work = Work(
        partitions=rows,
        elements=max(1, storage.partition_bytes // 4),
        dst=Buffer.SBUF if route is Route.LOAD else Buffer.HBM,
        dma=DmaWork(
            route=route,
            read_bytes=size,
            write_bytes=size,
            descriptors=rows,
            descriptor_bytes=max(1, storage.partition_bytes),
            engines=max(1, min(16, -(-rows // 8))),
        ),
    )
    cost = instruction_cost("dma_copy", Engine.DMA, work, target)
    return Op(
        name=name,
        queue=queue,
        busy_ns=cost.busy_ns if cost else 0.0,
        latency_ns=cost.latency_ns if cost else 0.0,
        engines=work.dma.engines if work.dma else 0,
        reads=(1,),
        writes=(0,),
        accumulates=False,
        line=line,
        work=work,
        unknown=cost is None,
    )
