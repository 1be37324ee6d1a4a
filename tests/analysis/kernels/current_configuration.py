from dataclasses import dataclass

import nki
import nki.isa as nisa
import nki.language as nl


@dataclass(frozen=True)
class Tiles:
    rows: int = 128
    columns: int = 512

    def count(self, size):
        return size // self.columns


TILES = Tiles(columns=256)


class Kernels:
    @staticmethod
    def helper(tile):
        nisa.activation(dst=tile, op=nl.silu, data=tile)


# accelopt: x=f32[128,2048] scale=0.5
@nki.jit
def kernel(x, scale, repeat=2, activate=True):
    """A configuration object, a method, a closure, defaults and keyword arguments."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    def step(tile, *, factor):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)

    for j in range(TILES.count(x.shape[1])):
        tile = nl.ndarray((TILES.rows, TILES.columns), dtype=x.dtype, buffer=nl.sbuf)
        columns = nl.ds(j * TILES.columns, TILES.columns)
        nisa.dma_copy(dst=tile, src=x[:, columns])
        for _ in range(repeat):
            step(tile, factor=scale)
        if activate:
            Kernels.helper(tile)
        nisa.dma_copy(dst=out[:, columns], src=tile)
    return out
