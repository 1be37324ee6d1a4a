# apply: {"over": "s"}
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=f32[256,512] a=f32[256,4]
@nki.jit
def accumulate(x, a):
    channels, length = x.shape
    states = a.shape[1]
    size = nl.tile_size.pmax
    tiles = channels // size
    out = nl.ndarray((channels, length), dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.zeros((tiles, nl.par_dim(size), length), dtype=nl.float32)
    x_c_tiles = nl.ndarray((tiles, nl.par_dim(size), length), dtype=x.dtype, buffer=nl.sbuf)
    for c in nl.affine_range(tiles):
        x_c_tiles[c, :, :] = nl.load(x[c * size:(c + 1) * size, 0:length])

    for s in nl.affine_range(states):
        for c in nl.affine_range(tiles):
            start = c * size
            a_c = nl.load(a[start:start+size, s])
            total[c, 0:size, 0:length] += nisa.activation(op=nl.exp, data=x_c_tiles[c, :, :], scale=a_c)
    for c in nl.affine_range(tiles):
        nl.store(out[c * size:(c + 1) * size, 0:length], total[c, 0:size, 0:length])
    return out
