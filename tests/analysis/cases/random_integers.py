"""Types of random integers that a script makes are those that it names."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np


@nki.jit
def chosen(where, x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.select_reduce(dst=tile, predicate=nl.load(where), on_true=nl.load(x), on_false=0.0)
    nl.store(out, value=tile)
    return out


@nki.jit
def refused(where, x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    mask = nl.load(where)
    nisa.select_reduce(dst=tile, predicate=mask, on_true=nl.load(x), on_false=0.0)  # expect: R097
    nl.store(out, value=tile)
    return out


def test():
    data = np.random.random_sample([128, 512]).astype(np.float32)
    chosen(np.random.randint(low=0, high=2, size=[128, 512], dtype=np.bool_), data)
    refused(np.random.randint(0, 2, [128, 512]), data)
