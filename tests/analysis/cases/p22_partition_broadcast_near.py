import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# One broadcast for all tiles.
# accelopt: x=f32[4096,512] w=f32[1,512]
@nki.jit
def kernel(x, w):
    out = nl.ndarray((4096, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.load(w)
    weights = row.broadcast_to((128, 512))
    for i in nl.affine_range(32):
        tile = nl.load(x[i * 128 : (i + 1) * 128, :])
        nl.store(out[i * 128 : (i + 1) * 128, :], nl.multiply(tile, weights))
    return out
