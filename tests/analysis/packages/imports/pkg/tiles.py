import nki.isa as I
import nki.language as lang

from .sub.sizes import PARTITIONS

width = 4 * PARTITIONS


def load_tile(source, index):
    tile = lang.ndarray((PARTITIONS, width), dtype=source.dtype, buffer=lang.sbuf)
    I.dma_copy(dst=tile, src=source[:, index * width : (index + 1) * width])
    return tile


def check(condition, text):
    assert condition, f"refused: {text}"
