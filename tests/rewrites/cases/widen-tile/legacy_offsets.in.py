# apply: {"factor": 4}
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=bf16[256,4096]
@nki.jit
def gate(x):
  rows, columns = x.shape
  tile = 512  # columns at a time
  out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
  i_p = nl.arange(128)[:, None]
  i_f = nl.arange(tile)[None, :]
  for r in nl.affine_range(rows // 128):
    for start in range(0, columns, tile):
      x_tile = nl.load(x[r * 128 + i_p, start + i_f])
      y_tile = nl.ndarray((128, tile), dtype=x.dtype, buffer=nl.sbuf)
      y_tile[i_p, i_f] = nl.gelu(x_tile)
      nl.store(out[r * 128 + i_p, start + i_f], value=y_tile)
  return out
