"""What scale_rows computes."""

import numpy as np


def forward(x, weight):
    return np.exp(x * weight)
