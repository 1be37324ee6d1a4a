# apply: {}
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


# accelopt: x=f32[256,512] bias=f32[128,512]
@nki.jit
def add_doubled(x, bias):
  out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
  bias_tile = nl.load(bias[0:128, 0:512])
  doubled = nl.multiply(bias_tile, 2.0)
  for i in nl.affine_range(2):
    x_tile = nl.load(x[i * 128:(i + 1) * 128, 0:512])
    # Twice the bias
    y = nl.add(x_tile, doubled)
    nl.store(out[i * 128:(i + 1) * 128, 0:512], value=y)
  return out
