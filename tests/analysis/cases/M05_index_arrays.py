import neuronxcc.nki as nki  # expect: M01
import neuronxcc.nki.language as nl


# accelopt: x=f32[256,1024] nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray((256, 1024), dtype=x.dtype, buffer=nl.shared_hbm)
    p, f = nl.mgrid[0:128, 0:512]  # expect: M05
    for i in nl.affine_range(2):
        even = nl.load(x[i * 128 + p, 2 * f])  # expect: P10
        odd = nl.load(x[i * 128 + p, 2 * f + 1])  # expect: P10
        nl.store(out[i * 128 + p, f], value=nl.add(even, odd))
        nl.store(out[i * 128 + p, 512 + f], value=nl.subtract(even, odd))
    return out


# accelopt: x=f32[256,1024] nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((256, 1024), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        tile = nl.load(x[nl.ds(i * 128, 128), :])
        nl.store(out[nl.ds(i * 128, 128), :], value=tile)
    return out
