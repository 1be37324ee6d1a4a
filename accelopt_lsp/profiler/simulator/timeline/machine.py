"""What the machine adds to the time of single instructions, for the event loop.

Ports that engines share, products that wait for their stationary operand, the clock of the
Tensor Engine, and descriptors that are made at run time. Each mechanism is in force where the
target has its constants and the policy keeps its rule.
"""

from __future__ import annotations

from attrs import frozen

from accelopt_lsp.nki.costs import descriptor_generation_ns, stationary_load_ns
from accelopt_lsp.nki.operands import Engine
from accelopt_lsp.nki.ports import held_ports
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.profiler.simulator.timeline.policy import Policy
from accelopt_lsp.profiler.simulator.timeline.stream import COMPUTE_QUEUES, Op, Queue, Stream
from accelopt_lsp.profiler.simulator.timeline.throttling import TensorClock

_ENGINES = {
    Queue.VECTOR: Engine.VECTOR,
    Queue.SCALAR: Engine.SCALAR,
    Queue.GPSIMD: Engine.GPSIMD,
}
RIVALS: tuple[tuple[int, ...], ...] = (
    (),
    (Queue.SCALAR, Queue.GPSIMD),
    (Queue.VECTOR,),
    (Queue.VECTOR,),
)
"""By queue: those that it may share a port with."""


@frozen(slots=True)
class Machine:
    """Tables by op code; lists of a mechanism that is off hold zeros.

    Attributes:
        busy: ns that the engine (DMA: its engines) is occupied.
        latency: further ns until the result can be used.
        trigger: ns that a transfer occupies its queue.
        load: ns to load the stationary operand where nothing hides it.
        hidden: ns of a transpose that run beside the product before it.
        ports: shared ports that an instruction holds while it runs.
        shares: whether any two engines can meet at a port.
        clock: the clock of the Tensor Engine where it throttles.
    """

    busy: list[float]
    latency: list[float]
    trigger: list[float]
    load: list[float]
    hidden: list[float]
    ports: list[int]
    shares: bool
    clock: TensorClock | None


def machine_of(stream: Stream, policy: Policy, target: Target) -> Machine:
    """The tables of a stream's ops on ``target``, under the rules of ``policy``."""
    ops = stream.ops
    made = [generation_ns(op, policy, target) for op in ops]
    static = target["dma_trigger_ns"]
    ports = [0] * len(ops)
    if policy.excludes:
        ports = [ports_of(op, target) for op in ops]
    meet = 0
    for first, second in ((Queue.VECTOR, Queue.GPSIMD), (Queue.VECTOR, Queue.SCALAR)):
        holds = [0, 0]
        for op, held in zip(ops, ports, strict=True):
            if op.queue in (first, second):
                holds[op.queue is second] |= held
        meet |= holds[0] & holds[1]
    loads = [0.0] * len(ops)
    if policy.loads_stationary:
        loads = [
            0.0
            if op.queue is not Queue.TENSOR or op.absent
            else stationary_load_ns(op.work, target)
            for op in ops
        ]
    return Machine(
        busy=[op.busy_ns for op in ops],
        latency=[max(0.0, op.latency_ns - extra) for op, extra in zip(ops, made, strict=True)],
        trigger=[
            0.0 if op.absent else extra or static for op, extra in zip(ops, made, strict=True)
        ],
        load=loads,
        hidden=[hidden_ns(op, target) if policy.hides_transposes else 0.0 for op in ops],
        ports=[held & meet for held in ports],
        shares=bool(meet),
        clock=TensorClock.of(target) if policy.throttles else None,
    )


def hidden_ns(op: Op, target: Target) -> float:
    """Time of a transpose that runs in the background of what the Tensor Engine does before it.

    NeuronCore-v4 reaches close to twice the rate on long chains of transposes (trainium3_arch).
    """
    speedup = target.get("pe_background_transpose")
    if speedup is None or op.queue is not Queue.TENSOR or not op.work.is_transpose:
        return 0.0
    return op.busy_ns * (1 - 1 / speedup)


def generation_ns(op: Op, policy: Policy, target: Target) -> float:
    """Time to make a transfer's descriptors at run time; 0 where they lie ready in HBM."""
    if op.queue < COMPUTE_QUEUES or op.absent or not policy.generates_descriptors:
        return 0.0
    return descriptor_generation_ns(op.issue.attr("dge_mode") if op.issue else None, target)


def ports_of(op: Op, target: Target) -> int:
    """Ports that an instruction holds against another engine: :mod:`~accelopt_lsp.nki.ports`."""
    engine = _ENGINES.get(op.queue)
    if engine is None or op.absent:
        return 0
    return held_ports(op.name, engine, op.work, target)
