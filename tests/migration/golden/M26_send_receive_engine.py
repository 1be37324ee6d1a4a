import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,256] grid=2
@nki.jit
def kernel(x):
    out = nl.ndarray((128, 256), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 256), dtype=x.dtype, buffer=nl.sbuf)
    other = nl.ndarray((128, 256), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    peer = 1 - nl.program_id(0)
    nisa.sendrecv(
        src=tile,
        dst=other,
        send_to_rank=peer,
        recv_from_rank=peer,
        pipe_id=0,
        dma_engine=nisa.dma_engine.gpsimd_dma,
    )
    nisa.sendrecv(
        src=tile,
        dst=other,
        send_to_rank=peer,
        recv_from_rank=peer,
        pipe_id=0,
        dma_engine=nisa.dma_engine.dma,
    )
    nisa.dma_copy(dst=out, src=other)
    return out
