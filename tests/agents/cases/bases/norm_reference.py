"""RMSNorm as in a fresh model: its weights are ones, its biases zeros."""

import ml_dtypes
import numpy as np


def get_inputs():
    x = np.random.normal(size=(128, 8192)).astype(ml_dtypes.bfloat16)
    return [x, np.ones(8192, ml_dtypes.bfloat16), np.zeros(8192, ml_dtypes.bfloat16)]


def forward(x, gamma, beta):
    mean = np.mean(np.square(x), axis=1, keepdims=True)
    return x / np.sqrt(mean + 1e-6) * gamma + beta
