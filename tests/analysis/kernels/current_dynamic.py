import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[64,4,128] index=i32[32,1] one=i32[1,1] target=trn2
@nki.jit
def kernel(x, index, one):
    """Rows, blocks and columns whose place is known at run time only; views as other types."""
    out = nl.ndarray((32, 4, 128), dtype=x.dtype, buffer=nl.shared_hbm)
    idx = nl.load(index)
    number = nl.load(one)
    flat = x.reshape((64, 512))
    tile = nl.ndarray((32, 4, 128), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x.vector_select(0, idx))
    nisa.dma_copy(dst=tile[:, 0:2, :], src=x.vector_select(0, idx)[:, 1:3, :])
    rows = flat.ap([[512, 32], [1, 128]], offset=128, vector_offset=idx)
    nisa.dma_copy(dst=tile[:, 3, :], src=rows, oob_mode=nisa.oob_mode.skip)
    for h in range(4):
        part = tile.ap([[512, 32], [1, 64]], offset=h * 128, scalar_offset=number, indirect_dim=2)
        nisa.tensor_scalar(dst=part, data=part, op0=nl.multiply, operand0=2.0)
    block = nl.ndarray((4, 128), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=block, src=x.select(0, number))
    halves = block.view(nl.bfloat16)
    moved = nl.ndarray((4, 2, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
    pairs = halves.rearrange(("p", ("x", "two")), ("p", "two", "x"), {"two": 2})
    nisa.tensor_copy(dst=moved, src=pairs)
    nisa.dma_copy(dst=out.ap([[512, 32], [1, 512]], vector_offset=idx), src=tile)
    nisa.dma_copy(dst=out[0, 0:4, :], src=block)
    return out
