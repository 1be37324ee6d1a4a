"""What matmul must compute, in NumPy: x @ w in bfloat16 with products summed in float32."""

import ml_dtypes
import numpy as np

M, K, N = 1024, 4096, 4096


def get_inputs():
    x = np.random.normal(size=(M, K)).astype(ml_dtypes.bfloat16)
    w = np.random.normal(size=(K, N)).astype(ml_dtypes.bfloat16)
    return [x, w]


def forward(x, w):
    return x.astype(np.float32) @ w.astype(np.float32)


def transform_to_nki_inputs(inputs):
    """The kernel wants the contraction first on both sides."""
    x, w = inputs
    return [np.ascontiguousarray(x.T), w]
