"""Results that static analysis must find as Python does."""

from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache, partial


@dataclass(frozen=True)
class Key:
    row: int
    column: int = 0


@dataclass
class Loose:
    size: int
    note: int = field(default=0, compare=False)


@dataclass(eq=False)
class Same:
    size: int


class Number:
    made = 0

    def __init__(self, value):
        Number.made += 1
        self.value = value
        self.order = Number.made

    def __add__(self, other):
        return Number(self.value + other)

    def __iadd__(self, other):
        self.value += 10 * other
        return self

    def __eq__(self, other):
        return self.value == other.value

    def __setitem__(self, key, value):
        self.value = key * value

    def __delitem__(self, key):
        self.value = -key

    def __enter__(self):
        self.value += 1
        return self.value

    def __exit__(self, *unused):
        self.value = 0

    @cached_property
    def once(self):
        self.value += 1
        return self.value


def spread(*values):
    return len(values), values


def late(count):
    def make(i):
        return lambda: i

    kept = [make(i) for i in range(count)]
    return [function() for function in kept]


def defaults(count):
    kept = []
    for i in range(count):

        def function(j=i, *, k=2 * i):
            return j + k

        kept.append(function)
    return [function() for function in kept], function()


def removed():
    items, table = list(range(6)), {"x": 1, "y": 2}
    del items[1], items[-1], table["x"]
    items[1:2] = [7, 7]
    return items, table


def in_place():
    items, table, numbers = [1], {"a": 1}, {1}
    others = items, table, numbers
    items *= 3
    items += (4,)
    table |= {"b": 2}
    numbers |= {2}
    return others[:2], len(others[2])


def once_only():
    calls = []

    def place():
        calls.append(1)
        return len(calls)

    items = [0] * 4
    items[place()] += 7
    return items, len(calls)


def with_number():
    number = Number(3)
    with number as inside:
        pass
    return inside, number.value


def special():
    number = Number(1)
    same = number
    number += 2
    after = same.value
    number[3] = 5
    set_to = same.value
    del number[9]
    return after, set_to, same.value


def counted(count):
    Number.made = 0
    return [Number(0).order for _ in range(count)]


def remembered():
    calls = []

    @lru_cache(maxsize=None)
    def listed(n):
        calls.append(n)
        return [n]

    @cache
    def doubled(n):
        return 2 * n

    first = [listed(i % 2) for i in range(5)]
    return calls, first[0] is first[2], [doubled(i) for i in range(4)]


def cached_once():
    number = Number(4)
    return number.once, number.once, number.value


def matched(value):
    match value:
        case 0 | 1:
            return "small"
        case [a, b]:
            return a + b
        case str() as text if text != "no":
            return text
        case None:
            return "none"
    return "other"


def shared():
    rows = [[i] for i in range(4)]
    again = list(rows)
    rows[0].append(9)
    return rows, again, rows[:], rows + rows


WIDTHS = [8, 16]
BY_WIDTH = {w: 2 * w for w in WIDTHS}
WIDTHS.append(100)
for _width in WIDTHS:
    BY_WIDTH.setdefault(_width, 7)

SPREAD = spread(*[2 * i for i in range(4)], *range(2), *{"a": 1})
STARRED = (*[i for i in range(4)], 9), len((*[i for i in range(4)], 1))
LATE = late(9)
PARTIAL = [f(10) for f in [partial(lambda a, b: a - b, i) for i in range(9)]]
DEFAULTS = defaults(9)
RANGES = [list(r) for r in [range(i, i + 2) for i in range(9)]]
PARTS = [list(range(20))[s] for s in [slice(i, i + 2) for i in range(9)]]
REMOVED = removed()
IN_PLACE = in_place()
ONCE_ONLY = once_only()
WITH = with_number()
SPECIAL = special()
COUNTED = counted(9)
REMEMBERED = remembered()
CACHED_ONCE = cached_once()
MATCHED = [matched(v) for v in (0, [1, 2], "yes", "no", None, 5)]
SHARED = shared()
LATER = BY_WIDTH, WIDTHS
SETS = (
    {1, 2} == {2, 1},
    len({i // 2 for i in range(6)}),
    len({1, 2, 3} & {2, 3, 4}),
    sorted({1} | {3}),
    {1} == [1],
    isinstance({1}, list),
)
EQUAL = (
    [0 for _ in range(4)] == [0, 0, 0, 0],
    {"a": [1]} == {"a": [1]},
    Key(1) in [Key(1)],
    [Key(2), Key(1)].index(Key(1)),
    {Key(1): 3}.get(Key(1)),
    len({Key(1): 1, Key(1): 2}),
    Loose(1, 5) == Loose(1, 6),
    Same(1) == Same(1),
    [Number(1)] == [Number(1)],
)
FLOATS = [i == 1.0 for i in range(9)], [i != 3.5 for i in range(9)]
INSERTED = []
for _number in range(10):
    INSERTED.insert(0, _number)

REGISTRY = {}
SIZES = [1]


def register(width):
    def decorator(function):
        REGISTRY[function.__name__] = width
        return function

    return decorator


@register(4)
def registered():
    return 1


def grow():
    SIZES.append(50)


grow()
REGISTERED = len(REGISTRY), list(REGISTRY.values()), SIZES
PERCENT = ["%s-%03d" % ("a", i) for i in (1, 12)], "{:>4}|{b}".format(7, b=2.5)
