import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


# accelopt: a=bf16[128,256] b=bf16[128,512]
@nki.jit
def product(a, b):
    out = nl.ndarray((256, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.load(a)
    right = nl.load(b)
    acc = nl.matmul(left, right, transpose_x=True)  # expect: R023 R026
    nl.store(out, acc)
    again = nl.load(out)  # expect: R023
    return out
