import functools
import itertools
import math
from functools import partial


def spread(a, b=2, *rest, c, d=4, **more):
    return (a, b, rest, c, d, more)


def outer(n):
    total = 0

    def inner(k):
        nonlocal total
        total += k
        return total

    return [inner(i) for i in range(n)]


def depth(n):
    return 0 if n == 0 else 1 + depth(n // 2)


def twice(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return 2 * function(*args, **kwargs)

    return wrapper


@twice
def doubled(n, extra=0):
    return n + extra


@functools.lru_cache(maxsize=None)
def cached(n):
    return n * n


def guarded(n):
    try:
        found = n // 4
    except ValueError:
        found = -1
    else:
        found += 1
    finally:
        found *= 2
    return found


def walrus(items):
    if (n := len(items)) > 2:
        return n
    return -n


def early(items):
    for position, item in enumerate(items):
        if item > 10:
            return position
    return None


class Base:
    scale = 3

    def __init__(self, n):
        self.n = n

    def value(self):
        return self.n * self.scale


class Derived(Base):
    scale = 5

    def __init__(self, n, extra):
        super().__init__(n)
        self.extra = extra

    def value(self):
        return super().value() + self.extra

    def __call__(self, k):
        return self.n + k

    def __len__(self):
        return self.n

    def __getitem__(self, k):
        return self.n * k

    def __add__(self, other):
        return Derived(self.n + other.n, 0)


made = Derived(4, 100)
add_five = partial(spread, 5, c=1)

SPREAD = spread(1, c=3)
SPREAD_MORE = spread(1, 2, 3, 4, c=5, e=6)
SPREAD_STARS = spread(*[1, 2, 3], **{"c": 4})
PARTIAL = add_five(d=9)
CLOSURE = outer(5)
RECURSION = depth(100)
DECORATED = (doubled(4, extra=1), cached(5))
TRY = guarded(40)
WALRUS = (walrus([1, 2, 3]), walrus([1]))
EARLY = (early([1, 20, 3]), early([1]))
INHERITED = (made.value(), made.scale, Base(2).value())
SPECIAL = (made(3), len(made), made[6], (made + made).n, bool(made))
CHAINED = (1 < made.n <= 4 < 5, 1 if made.n > 3 else 2)
PRODUCT = [a * b for a, b in itertools.product(range(3), (1, 10))]
SUMS = list(itertools.accumulate([1, 2, 3, 4]))
MATH = (math.ceil(7 / 2), math.log2(8), math.prod((2, 3)), math.gcd(12, 18))
BUILTINS = (
    sorted([3, 1, 2], reverse=True),
    sorted(["bb", "a"], key=len),
    min(4, 2, 3),
    max([1, 5], default=0),
    max([], default=7),
    sum([1, 2], 10),
    any(n > 2 for n in (1, 3)),
    all([]),
    list(zip([1, 2], "ab")),
    list(map(lambda n: n + 1, [1, 2])),
    list(filter(None, [0, 1, 2])),
    list(reversed((1, 2))),
    divmod(17, 5),
    abs(-3),
    round(2.6),
)
LISTS = [0] * 2 + [1, 2]
LISTS.append(5)
LISTS.insert(0, 9)
LISTS.extend((7, 8))
POPPED = LISTS.pop()
FOUND = (LISTS.index(5), LISTS.count(0), LISTS[-1], LISTS[1:3], 5 in LISTS)
DICT = {"a": 1, **{"b": 2}}
DICT.update(c=3)
DICTS = (DICT.get("x", 0), list(DICT.items()), DICT.pop("a"), DICT.setdefault("z", 26), len(DICT))
SETS = (len({1, 2, 2}), 3 in {1, 2}, sorted(set([2, 1, 2])))
TEXTS = (
    "a,b".split(","),
    "-".join(["x", "y"]),
    "Abc".lower().startswith("ab"),
    f"{made.n:03d}|{made.n}",
    "abc"[1:],
    "a b".replace(" ", "_"),
)
