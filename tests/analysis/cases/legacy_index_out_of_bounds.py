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
    for i in nl.affine_range(3):
        tile = nl.load(x[i * 128 + i_p, i_f])  # expect: R028
        nl.store(out[i * 128 + i_p, i_f], value=tile, mask=(i * 128 + i_p < rows))
    return out
