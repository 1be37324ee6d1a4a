from collections import namedtuple
from typing import NamedTuple

Pair = namedtuple("Pair", "left right")


class Span(NamedTuple):
    start: int
    stop: int = 100

    def length(self):
        return self.stop - self.start


span = Span(10)
left, right = Pair(1, right=2)

FIELDS = (span.start, span.stop, span[1], len(span))
METHOD = span.length()
REPLACED = span._replace(stop=20).length()
UNPACKED = (left, right)
DICT = span._asdict()
TUPLE = (isinstance(span, tuple), span == (10, 100), Pair(3, 4).left)
