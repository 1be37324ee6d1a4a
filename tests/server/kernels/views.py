import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=bf16[256,512]
@nki.jit
def halves(x):
    out = nl.ndarray((256, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    view = x.reshape((2, 128, 512))
    for i in nl.affine_range(2):
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        left = tile[:, 0:256]
        alias = tile
        part = view[i]
        nisa.dma_copy(dst=alias, src=part)
        nisa.tensor_scalar(dst=left, data=left, op0=nl.multiply, operand0=2.0)
        o = out[i * 128:(i + 1) * 128, :]
        spare = nl.ndarray((128, 256), dtype=x.dtype, buffer=nl.sbuf)
        tile, spare = spare, tile
        nisa.dma_copy(dst=o, src=spare)
    return out
