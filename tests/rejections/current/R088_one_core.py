import nki
import nki.isa as nisa
import nki.language as nl


def load(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


def store(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


# accelopt: x=f32[128,512] target=trn2
@nki.jit
def broken(x):
    tile = load(x)
    other = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.sendrecv(src=tile, dst=other, send_to_rank=1, recv_from_rank=1, pipe_id=0)  # expect: R088
    return store(other)


# accelopt: x=f32[128,512] target=trn2 grid=2
@nki.jit
def valid(x):
    tile = load(x)
    other = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    peer = 1 - nl.program_id(0)
    nisa.sendrecv(src=tile, dst=other, send_to_rank=peer, recv_from_rank=peer, pipe_id=0)
    return store(other)
