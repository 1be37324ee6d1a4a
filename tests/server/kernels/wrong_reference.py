"""What wrong should compute: the logistic function, not the exponential."""

import numpy as np


def forward(x):
    return 1 / (1 + np.exp(-x.astype(np.float32)))
