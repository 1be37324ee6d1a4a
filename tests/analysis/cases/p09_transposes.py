import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=bf16[1024,1024] w=bf16[1024,2048]
@nki.jit
def kernel(x, w):
    out = nl.ndarray((1024, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
    weights = nl.ndarray((8, nl.par_dim(128), 2048), dtype=w.dtype, buffer=nl.sbuf)
    for k in nl.affine_range(8):
        weights[k] = nl.load(w[k * 128 : (k + 1) * 128, :])
    for m in nl.affine_range(8):
        rows = nl.load(x[m * 128 : (m + 1) * 128, :])
        for n in nl.affine_range(4):
            acc = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(8):
                acc += nl.matmul(
                    rows[:, k * 128 : (k + 1) * 128], weights[k, :, n * 512 : (n + 1) * 512]
                )  # expect-above: P09
            nl.store(out[m * 128 : (m + 1) * 128, n * 512 : (n + 1) * 512], acc)
    return out
