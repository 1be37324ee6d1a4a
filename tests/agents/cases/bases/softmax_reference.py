"""Softmax over rows."""

import numpy as np


def get_inputs():
    return [np.random.normal(size=(128, 512)).astype(np.float32)]


def forward(x):
    exponent = np.exp(x - np.max(x, axis=1, keepdims=True))
    return exponent / np.sum(exponent, axis=1, keepdims=True)
