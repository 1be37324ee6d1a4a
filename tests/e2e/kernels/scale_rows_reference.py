"""What scale_rows computes."""

import numpy as np


def get_inputs():
    x = np.random.normal(size=(512, 1024)).astype(np.float32)
    weight = np.random.normal(size=(1, 1024)).astype(np.float32)
    return [x, weight]


def forward(x, weight):
    return np.exp(x * weight)
