"""Draws icon.png: a grid of processing elements, lit along a rising curve."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

SIZE = 256
CELLS = 6
MARGIN = 34
RADIUS = 44
GROUND = (18, 37, 58)
DARK = (38, 70, 104)
LIT = (255, 178, 56)
HEIGHTS = (1, 1, 2, 3, 4, 6)


def inside(x: int, y: int, low: float, high: float, radius: float) -> bool:
    """Whether a point lies in a square with rounded corners."""
    if not (low <= x < high and low <= y < high):
        return False
    dx = max(low + radius - x, x - (high - 1 - radius), 0)
    dy = max(low + radius - y, y - (high - 1 - radius), 0)
    return dx * dx + dy * dy <= radius * radius


def pixel(x: int, y: int) -> tuple[int, int, int, int]:
    if not inside(x, y, 0, SIZE, RADIUS):
        return (0, 0, 0, 0)
    pitch = (SIZE - 2 * MARGIN) / CELLS
    column, row = int((x - MARGIN) // pitch), int((y - MARGIN) // pitch)
    if 0 <= column < CELLS and 0 <= row < CELLS:
        left, top = x - MARGIN - column * pitch, y - MARGIN - row * pitch
        if 3 <= left < pitch - 3 and 3 <= top < pitch - 3:
            lit = CELLS - row <= HEIGHTS[column]
            return (*(LIT if lit else DARK), 255)
    return (*GROUND, 255)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def main() -> None:
    rows = b"".join(b"\0" + b"".join(bytes(pixel(x, y)) for x in range(SIZE)) for y in range(SIZE))
    header = struct.pack(">IIBBBBB", SIZE, SIZE, 8, 6, 0, 0, 0)
    png = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows, 9))
        + chunk(b"IEND", b"")
    )
    Path(__file__).with_name("icon.png").write_bytes(png)


if __name__ == "__main__":
    main()
