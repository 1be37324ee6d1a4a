"""What weigh computes."""

import numpy as np


def get_inputs():
    x = np.random.normal(size=(256, 1024)).astype(np.float32)
    weight = np.random.normal(size=(256, 1024)).astype(np.float32)
    return [x, weight]


def forward(x, weight):
    return x * weight
