"""What the machine adds to the time of single instructions, for the event loop.

Ports that engines share, products that wait for their stationary operand, the clock of the
Tensor Engine, and descriptors that are made at run time. Each mechanism is in force where the
target has its constants and the policy keeps its rule.
"""

from __future__ import annotations

from attrs import frozen

from accelopt_lsp.nki.costs import stationary_load_ns, uses_performance_mode
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.profiler.simulator.timeline.policy import Policy
from accelopt_lsp.profiler.simulator.timeline.stream import COMPUTE_QUEUES, Op, Queue, Stream
from accelopt_lsp.profiler.simulator.timeline.throttling import TensorClock

SBUF_PORT, PSUM_PORT = 1, 2
PORT_SETS = 4
"""Number of sets of these two ports, which are written as sums."""
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
        ports = [held_ports(op, target) for op in ops]
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
    """Time to make a transfer's descriptors at run time; 0 where they lie ready in HBM.

    In the current dialect the compiler has them made unless the call says ``dge_mode=none``: in
    AWS's own profiles of such kernels all packets are dynamic (kernel-optimization). The time
    from trigger to use that is documented includes making them.
    """
    if op.queue < COMPUTE_QUEUES or op.absent or not policy.generates_descriptors:
        return 0.0
    mode = None if op.issue is None else op.issue.attr("dge_mode")
    return 0.0 if mode == "none" else target.get("dma_generation_ns") or 0.0


def held_ports(op: Op, target: Target) -> int:
    """Ports that an instruction holds against another engine.

    NeuronCore-v2: Vector and GpSimd cannot access SBUF at the same time, nor can Vector and
    Scalar access PSUM (trainium_inferentia2_arch). Later ones lift both; only the performance
    modes of Vector take a bus that they share with GpSimd (trainium2_arch).
    """
    work, queue = op.work, op.queue
    if queue not in (Queue.VECTOR, Queue.SCALAR, Queue.GPSIMD) or work.elements == 0 or op.absent:
        return 0
    held = 0
    if target.get("psum_port_shared") and (work.psum_inputs or work.dst is Buffer.PSUM):
        held |= PSUM_PORT
    if queue is Queue.SCALAR:
        return held
    in_sbuf = work.sbuf_inputs > 0 or work.dst is Buffer.SBUF
    fast = queue is Queue.GPSIMD or uses_performance_mode(op.name, work, target)
    if in_sbuf and (
        target.get("sbuf_port_shared") or (fast and target.get("sbuf_fast_port_shared"))
    ):
        held |= SBUF_PORT
    return held
