import nki
import nki.language as nl


# accelopt: x=f32[512,512] grid=4 nki-version=0.6
@nki.jit
def kernel(x):
    out = nl.ndarray((512, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    rows = 512 // nl.num_programs()
    start = nl.program_id(0) * rows
    nl.store(out[nl.ds(start, 128), :], value=nl.load(x[nl.ds(start, 128), :]))
    return out


# accelopt: x=f32[512,512] grid=4 nki-version=0.6
@nki.jit
def near_miss(x):
    out = nl.ndarray((512, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    rows = 512 // nl.num_programs(0)
    start = nl.program_id(0) * rows
    nl.store(out[nl.ds(start, 128), :], value=nl.load(x[nl.ds(start, 128), :]))
    return out
