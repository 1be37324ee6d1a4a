import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# accelopt: x=f32[128,512] w=f32[1,512] c=f32[128,1]
@nki.jit
def kernel(x, w, c):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile, row, column = nl.load(x), nl.load(w), nl.load(c)
    scaled = tile * column
    scaled = nl.multiply(scaled, row)
    scaled = scaled + row  # expect: R045
    nl.store(out, scaled)
    return out
