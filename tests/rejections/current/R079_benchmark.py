import nki


def broken():
    return nki.benchmark(valid)  # expect: R079 nki.benchmark


# accelopt: x=f32[128,512]
@nki.jit
def valid(x):
    return x
