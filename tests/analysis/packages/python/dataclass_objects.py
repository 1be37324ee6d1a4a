"""Results that static analysis must find as Python does."""

import dataclasses
from dataclasses import dataclass, field, replace
from typing import ClassVar, Optional


@dataclass
class Tile:
    rows: int
    columns: int = 512
    tags: list = field(default_factory=list)
    owner: Optional["Tile"] = None
    kinds: ClassVar[int] = 3
    area: int = field(init=False, default=0)

    def __post_init__(self):
        self.area = self.rows * self.columns

    @property
    def half(self):
        return self.rows // 2

    @half.setter
    def half(self, value):
        self.rows = 2 * value

    @staticmethod
    def build(n):
        return Tile(n, n)

    @classmethod
    def named(cls, n, *, label="x"):
        made = cls(n)
        made.tags.append(label)
        return made


@dataclass
class Wide(Tile):
    extra: int = 7

    def __post_init__(self):
        pass


@dataclass(kw_only=True)
class Options:
    depth: int
    names: dict = field(default_factory=dict)


tile = Tile(4)
other = Tile.named(6, label="n")
moved = replace(tile, rows=10)
tile.half = 8
wide = Wide(1, 2, extra=9)
options = Options(depth=2)
options.names["a"] = tile.rows

AREA = (tile.area, moved.area, Tile.build(3).area)
HALF = (tile.half, tile.rows)
TAGS = (other.tags, Tile(1).tags, moved.tags is tile.tags)
KINDS = (Tile.kinds, other.kinds)
WIDE = (wide.extra, wide.columns, wide.area, isinstance(wide, Tile), isinstance(tile, Wide))
EQUAL = (Tile(1) == Tile(1), Tile(1) == Tile(2), Tile(1) != Tile(1))
OPTIONS = (options.depth, options.names, tile.owner is None, tile.owner == None)  # noqa: E711
AS_DICT = dataclasses.asdict(Options(depth=5))
FIELDS = [f.name for f in dataclasses.fields(Options)]
HAS = (hasattr(tile, "rows"), hasattr(tile, "nothing"), getattr(tile, "nothing", 11))
