import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512] grid=1
@nki.jit
def trip(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    other = nl.ndarray((128, 256), dtype=x.dtype, buffer=nl.sbuf)
    nisa.sendrecv(  # expect: R088 2 cores
        src=tile[:, 0:256], dst=other, send_to_rank=1, recv_from_rank=1, pipe_id=0
    )
    nisa.dma_copy(dst=out, src=tile)
    return out


# accelopt: x=f32[128,512] grid=2
@nki.jit
def near(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    other = nl.ndarray((128, 256), dtype=x.dtype, buffer=nl.sbuf)
    nisa.sendrecv(src=tile[:, 0:256], dst=other, send_to_rank=1, recv_from_rank=1, pipe_id=0)
    nisa.dma_copy(dst=out, src=tile)
    return out
