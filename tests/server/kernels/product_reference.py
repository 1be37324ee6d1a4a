"""What product must compute."""

import ml_dtypes
import numpy as np


def get_inputs():
    shapes = (512, 512), (512, 1024)
    return [np.random.normal(size=s).astype(ml_dtypes.bfloat16) for s in shapes]


def forward(lhsT, rhs):
    return lhsT.astype(np.float32).T @ rhs.astype(np.float32)
