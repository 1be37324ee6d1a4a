import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=bf16[256,512] w=bf16[512,512]
@nki.jit
def kernel(x, w):
    """Functions of nki.language that issue several instructions."""
    rows, columns = x.shape
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(rows // 128):
        tile = nl.load(x[i * 128 : (i + 1) * 128, :])
        soft = nl.softmax(tile, axis=1)
        acc = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.psum)
        for k in range(columns // 128):
            psum = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.psum)
            nisa.nc_transpose(dst=psum, data=soft[:, k * 128 : (k + 1) * 128])
            turned = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=turned, src=psum)
            w_tile = nl.load(w[k * 128 : (k + 1) * 128, :])
            nisa.nc_matmul(dst=acc, stationary=turned, moving=w_tile)
        result = nl.copy(acc, dtype=x.dtype)
        result = nl.add(result, tile)
        result = nl.multiply(result, 2.0)
        nl.store(out[i * 128 : (i + 1) * 128, :], result)
    return out
