"""What rmsnorm must compute, in NumPy."""

import ml_dtypes
import numpy as np

ROWS, COLUMNS, EPS = 4096, 2048, 1e-6


def get_inputs():
    x = np.random.normal(size=(ROWS, COLUMNS)).astype(ml_dtypes.bfloat16)
    gamma = np.random.normal(size=(COLUMNS,)).astype(ml_dtypes.bfloat16)
    return [x, gamma]


def forward(x, gamma):
    x, gamma = x.astype(np.float32), gamma.astype(np.float32)
    mean = np.mean(np.square(x), axis=1, keepdims=True)
    return x / np.sqrt(mean + EPS) * gamma
