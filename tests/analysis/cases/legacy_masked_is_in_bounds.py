import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=f32[300,512]
@nki.jit
def kernel(x):
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]
    i_f = nl.arange(columns)[None, :]
    for i in nl.affine_range((rows + 127) // 128):
        tile = nl.load(x[i * 128 + i_p, i_f], mask=(i * 128 + i_p < rows))
        nl.store(out[i * 128 + i_p, i_f], value=tile, mask=(i * 128 + i_p < rows))
    return out
