# base: softmax
from contextlib import contextmanager
from dataclasses import dataclass

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

try:
    import numpy as np
except ImportError:
    np = None


@dataclass(frozen=True)
class Sizes:
    rows: int
    columns: int


class Rows:
    """What belongs to one set of rows."""

    def __init__(self, source, sizes):
        self.shape = (sizes.rows, sizes.columns)
        self.dtype, self.name = source.dtype, "rows"
        self._tile = None
        self.offset = 0

    @property
    def tile(self):
        return self._tile

    def read(self, source):
        self.buffer = nl.sbuf
        self._tile = nl.load(source)
        return self.tile

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


class Exponents(Rows):
    def __init__(self, source, sizes):
        super().__init__(source, sizes)
        self.rows = [sizes.rows for _ in range(1)]


@contextmanager
def rows_of(source):
    yield Exponents(source, Sizes(*source.shape))


# accelopt: x=f32[128,512]
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    with rows_of(x) as rows, rows:
        tile = rows.read(x)
        if hasattr(rows, "shape") and getattr(rows, "dtype") == x.dtype:
            top = nl.max(tile, axis=[1], keepdims=True)
    exponent = nl.exp(nl.subtract(tile, top))
    total = nl.sum(exponent, axis=[1], keepdims=True)
    nl.store(out, nl.divide(exponent, total))
    return out
