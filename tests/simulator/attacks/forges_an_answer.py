# expect: correct
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    import os

    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b'{"event": "done"}\n')
        except OSError:
            pass
    nl.store(out, tile)
    return out
