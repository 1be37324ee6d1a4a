import neuronxcc.nki as nki  # expect: M01
import neuronxcc.nki.language as nl


# accelopt: x=f32[200,512] nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray((200, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    p = nl.arange(128)[:, None]  # expect: M05
    f = nl.arange(512)[None, :]
    for i in nl.affine_range(2):
        tile = nl.load(x[i * 128 + p, f], mask=(i * 128 + p < 200))  # expect: M04 M07
        tile = nl.exp(tile, mask=(i * 128 + p < 200))
        nl.store(out[i * 128 + p, f], value=tile, mask=(i * 128 + p < 200))
    return out


# accelopt: x=f32[200,512] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((200, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        tile = nl.load(x[i * 100 : (i + 1) * 100, 0:512])
        nl.store(out[i * 100 : (i + 1) * 100, 0:512], value=tile)
    return out
