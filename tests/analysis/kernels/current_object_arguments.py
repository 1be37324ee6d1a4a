"""Dataclasses, named tuples, plain classes, lists and dictionaries as arguments."""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import nki
import nki.isa as nisa
import nki.language as nl


class Mode(Enum):
    PLAIN = 0
    TWICE = 1


@dataclass
class Config:
    tile: int
    weights: object = None
    mode: Mode = Mode.PLAIN

    def passes(self):
        return 2 if self.mode == Mode.TWICE else 1


class Sizes(NamedTuple):
    rows: int
    columns: int = 64


class Holder:
    def __init__(self, tensor, scale):
        self.tensor = tensor
        self.columns = tensor.shape[1]
        self.scale = scale


# accelopt: x=f32[256,512] config=Config(128, weights=[bf16[128,64], bf16[128,32]], mode=Mode.TWICE)
# accelopt: sizes=Sizes(rows=96) holder=Holder(f32[128,256], 2.0) more={'n': 3, 'y': f32[128,8]}
@nki.jit
def kernel(x, config, sizes, holder, more):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for _ in range(config.passes()):
        for start in nl.affine_range(x.shape[0] // config.tile):
            tile = nl.ndarray((config.tile, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
            rows = slice(start * config.tile, (start + 1) * config.tile)
            nisa.dma_copy(dst=tile, src=x[rows, :])
            nisa.dma_copy(dst=out[rows, :], src=tile)
    for weight in config.weights:
        loaded = nl.ndarray(weight.shape, dtype=weight.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=loaded, src=weight)
        nisa.activation(dst=loaded, op=nl.exp, data=loaded, scale=holder.scale)
    small = nl.ndarray((sizes.rows, sizes.columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=small, value=0.0)
    held = nl.ndarray((128, holder.columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=held, src=holder.tensor)
    for _ in range(more["n"]):
        last = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=last, src=more["y"])
    return out
