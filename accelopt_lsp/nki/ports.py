"""Ports to the on-chip memories that engines share, and so take turns at."""

from __future__ import annotations

from accelopt_lsp.nki.costs import uses_performance_mode
from accelopt_lsp.nki.operands import Buffer, Engine
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.nki.work import Work

SBUF_PORT, PSUM_PORT = 1, 2
PORT_SETS = 4
"""Number of sets of these two ports, which are written as sums."""
PORT_RIVALS = {
    SBUF_PORT: (Engine.VECTOR, Engine.GPSIMD),
    PSUM_PORT: (Engine.VECTOR, Engine.SCALAR),
}
"""Which two engines take turns at each port."""


def held_ports(instruction: str, engine: Engine, work: Work, target: Target) -> int:
    """Ports that an instruction holds against another engine.

    NeuronCore-v2: Vector and GpSimd cannot access SBUF at the same time, nor can Vector and
    Scalar access PSUM (trainium_inferentia2_arch). Later ones lift both; only the performance
    modes of Vector take a bus that they share with GpSimd (trainium2_arch).
    """
    if engine not in (Engine.VECTOR, Engine.SCALAR, Engine.GPSIMD) or work.elements == 0:
        return 0
    held = 0
    if target.get("psum_port_shared") and (work.psum_inputs or work.dst is Buffer.PSUM):
        held |= PSUM_PORT
    if engine is Engine.SCALAR:
        return held
    in_sbuf = work.sbuf_inputs > 0 or work.dst is Buffer.SBUF
    fast = engine is Engine.GPSIMD or uses_performance_mode(instruction, work, target)
    if in_sbuf and (
        target.get("sbuf_port_shared") or (fast and target.get("sbuf_fast_port_shared"))
    ):
        held |= SBUF_PORT
    return held
