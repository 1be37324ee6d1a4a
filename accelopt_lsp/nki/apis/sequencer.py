"""``nki.isa`` calls of sequencers: registers, and cores that wait for each other."""

from __future__ import annotations

from accelopt_lsp.nki.dialects import Role, api, instruction

APIS = (
    api(
        "nisa.register_alloc",
        Role.COMPUTE,
        "A new register, with a first number if one is given.",
        current="(x=None)",
    ),
    instruction(
        "register_move",
        "Puts a number, or the content of another register, into a register.",
        legacy=None,
        current="(dst, src=None, imm=None)",
    ),
    instruction(
        "register_load",
        "Reads one number from memory into a register.",
        legacy=None,
        current="(dst, src)",
    ),
    instruction(
        "register_store",
        "Writes the content of a register to memory.",
        legacy=None,
        current="(dst, src)",
    ),
    instruction(
        "sendrecv",
        "Exchanges tiles between the two cores of a logical core.",
        legacy=None,
        current="(src, dst, send_to_rank, recv_from_rank, pipe_id, dma_engine='dma', name=None, "
        "use_gpsimd_dma=None)",
    ),
    instruction(
        "core_barrier",
        "Waits until the cores that share a tensor have all come this far.",
        legacy=None,
        current="(data, cores, engine='gpsimd', name=None)",
    ),
)
