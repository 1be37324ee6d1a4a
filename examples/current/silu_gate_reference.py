"""What silu_gate must compute, in NumPy."""

import ml_dtypes
import numpy as np

ROWS, COLUMNS = 4096, 3072


def get_inputs():
    gate = np.random.normal(size=(ROWS, COLUMNS)).astype(ml_dtypes.bfloat16)
    up = np.random.normal(size=(ROWS, COLUMNS)).astype(ml_dtypes.bfloat16)
    return [gate, up]


def forward(gate, up):
    gate, up = gate.astype(np.float32), up.astype(np.float32)
    return gate / (1.0 + np.exp(-gate)) * up
