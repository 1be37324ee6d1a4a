"""Integers as linear forms of loop variables, with exact ranges.

An operation that has no linear answer over the whole range of a loop asks for a split
(:class:`NeedSplit`): the loop that owns the variable then visits its body once per part. Where
a loop cannot be split any further, :class:`Undecided` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count

from attrs import define, field, frozen

_ids = count()
MAX_CUTS = 10_000


@define(slots=True, eq=False)
class Var:
    """The iteration number of a loop, in ``[low, high)``.

    Attributes:
        name: loop variable as written.
        low, high: range of iterations that this visit of the body stands for.
        line: of the loop.
        first: iteration number of the whole loop's first iteration.
        opaque: the loop may not be split (that would take too long).
    """

    name: str
    low: int
    high: int
    line: int
    first: int = 0
    opaque: bool = False
    id: int = field(factory=lambda: next(_ids))

    @property
    def trips(self) -> int:
        return self.high - self.low


class NeedSplit(Exception):  # noqa: N818 - a control signal, no error
    """The body must be visited for parts of ``var``'s range.

    ``cuts``: iteration numbers at which a new part begins; None for every iteration alone.
    """

    def __init__(self, var: Var, cuts: tuple[int, ...] | None) -> None:
        super().__init__(var.name)
        self.var = var
        self.cuts = cuts


class Undecided(Exception):  # noqa: N818 - a control signal, no error
    """An operation without a known result. The message is a reason for people."""


@frozen(slots=True)
class Affine:
    """``const + sum(coefficient * variable)``; never without a term."""

    const: int
    terms: tuple[tuple[Var, int], ...]

    def __str__(self) -> str:
        text = ""
        for var, coefficient in self.terms:
            sign = " - " if coefficient < 0 else (" + " if text else "")
            factor = "" if abs(coefficient) == 1 else f"{abs(coefficient)} * "
            text += f"{sign}{factor}{var.name}"
        if self.const:
            text += f" {'-' if self.const < 0 else '+'} {abs(self.const)}"
        return text.strip()


Linear = int | Affine


def symbol(var: Var) -> Linear:
    """The variable itself; a number if its range is a single iteration."""
    return var.low if var.trips == 1 else Affine(0, ((var, 1),))


def build(const: int, terms: Iterable[tuple[Var, int]]) -> Linear:
    """A linear form, or a plain integer if no term is left."""
    kept = tuple(t for t in terms if t[1] != 0)
    return Affine(const, kept) if kept else const


def terms_of(value: Linear) -> tuple[tuple[Var, int], ...]:
    return value.terms if isinstance(value, Affine) else ()


def const_of(value: Linear) -> int:
    return value.const if isinstance(value, Affine) else value


def add(a: Linear, b: Linear) -> Linear:
    if isinstance(a, int):
        return a + b if isinstance(b, int) else Affine(a + b.const, b.terms)
    if isinstance(b, int):
        return Affine(a.const + b, a.terms)
    merged: dict[Var, int] = dict(a.terms)
    for var, coefficient in b.terms:
        merged[var] = merged.get(var, 0) + coefficient
    return build(a.const + b.const, merged.items())


def scale(a: Linear, factor: int) -> Linear:
    if isinstance(a, int):
        return a * factor
    return build(a.const * factor, ((v, c * factor) for v, c in a.terms))


def subtract(a: Linear, b: Linear) -> Linear:
    return add(a, scale(b, -1))


def bounds(value: Linear) -> tuple[int, int]:
    """Smallest and largest value over the variables' ranges."""
    if isinstance(value, int):
        return value, value
    low = high = value.const
    for var, coefficient in value.terms:
        first, last = coefficient * var.low, coefficient * (var.high - 1)
        low += min(first, last)
        high += max(first, last)
    return low, high


def substitute(value: Linear, var: Var, replacement: Linear) -> Linear:
    """``value`` with a variable replaced by another linear form."""
    if isinstance(value, int):
        return value
    result: Linear = value.const
    for other, coefficient in value.terms:
        piece = replacement if other is var else Affine(0, ((other, 1),))
        result = add(result, scale(piece, coefficient))
    return result


def split(terms: tuple[tuple[Var, int], ...], why: str) -> NeedSplit:
    """Ask the loop with the fewest iterations among these to visit each iteration alone.

    Raises:
        Undecided: none of the loops may be split.
    """
    candidates = [v for v, _ in terms if not v.opaque]
    if not candidates:
        raise Undecided(why)
    return NeedSplit(min(candidates, key=lambda v: (v.trips, v.id)), None)


def multiply(a: Linear, b: Linear) -> Linear:
    if isinstance(a, int):
        return scale(b, a)
    if isinstance(b, int):
        return scale(a, b)
    raise split((*a.terms, *b.terms), f"({a}) * ({b}) is not linear")


def _parts(value: Affine, divisor: int) -> tuple[Linear, Linear]:
    """(multiple of the divisor already divided, rest)."""
    whole = [(v, c // divisor) for v, c in value.terms if c % divisor == 0]
    rest = [(v, c) for v, c in value.terms if c % divisor != 0]
    return build(value.const // divisor, whole), build(value.const % divisor, rest)


def floordiv(a: Linear, divisor: int) -> Linear:
    if divisor == 0:
        raise Undecided("division by zero")
    if isinstance(a, int):
        return a // divisor
    if divisor < 0:
        return floordiv(scale(a, -1), -divisor)
    whole, rest = _parts(a, divisor)
    low, high = bounds(rest)
    if low // divisor == high // divisor:
        return add(whole, low // divisor)
    raise _multiples(rest, divisor, f"({a}) // {divisor} is not linear")


def modulo(a: Linear, divisor: int) -> Linear:
    if divisor == 0:
        raise Undecided("division by zero")
    if isinstance(a, int):
        return a % divisor
    if divisor < 0:
        raise split(a.terms, f"({a}) % {divisor} is not linear")
    _, rest = _parts(a, divisor)
    low, high = bounds(rest)
    if low // divisor == high // divisor:
        return subtract(rest, low // divisor * divisor)
    raise _multiples(rest, divisor, f"({a}) % {divisor} is not linear")


def _multiples(rest: Linear, divisor: int, why: str) -> NeedSplit:
    """Split where ``rest`` passes a multiple of the divisor."""
    terms = terms_of(rest)
    if len(terms) != 1 or terms[0][0].opaque:
        return split(terms, why)
    var, coefficient = terms[0]
    const = const_of(rest)
    first = (const + coefficient * var.low) // divisor
    last = (const + coefficient * (var.high - 1)) // divisor
    if abs(last - first) > MAX_CUTS:
        return split(terms, why)
    if coefficient > 0:
        # The first iteration that reaches each further multiple.
        cuts = {-((const - q * divisor) // coefficient) for q in range(first + 1, last + 1)}
    else:
        cuts = {(const - q * divisor) // -coefficient + 1 for q in range(last + 1, first + 1)}
    return NeedSplit(var, tuple(sorted(cuts)))


Test = Callable[[int], bool]
_TESTS: dict[str, Test] = {
    "<": lambda d: d < 0,
    "<=": lambda d: d <= 0,
    ">": lambda d: d > 0,
    ">=": lambda d: d >= 0,
    "==": lambda d: d == 0,
    "!=": lambda d: d != 0,
}


def compare(operator: str, a: Linear, b: Linear) -> bool:
    """Whether a comparison holds for all iterations (True) or for none (False).

    Raises:
        NeedSplit: it depends on the iteration.
        Undecided: it does, and the loop cannot be split.
    """
    difference = subtract(a, b)
    test = _TESTS[operator]
    if isinstance(difference, int):
        return test(difference)
    known = decide(operator, difference)
    if known is not None:
        return known
    terms = difference.terms
    why = f"({a}) {operator} ({b}) depends on the iteration"
    if len(terms) > 1 or terms[0][0].opaque:
        raise split(terms, why)
    var, coefficient = terms[0]
    raise NeedSplit(var, _cuts(operator, var, coefficient, difference.const))


def decide(operator: str, difference: Linear) -> bool | None:
    """Whether ``difference OPERATOR 0`` always (True) or never (False) holds."""
    low, high = bounds(difference)
    if operator in ("==", "!="):
        if low == high == 0:
            return operator == "=="
        return None if low <= 0 <= high else operator == "!="
    test = _TESTS[operator]
    first, last = test(low), test(high)
    return first if first == last else None


def _cuts(operator: str, var: Var, coefficient: int, const: int) -> tuple[int, ...]:
    """Iterations at which ``coefficient * i + const OPERATOR 0`` changes its truth."""
    points: tuple[int, ...]
    if operator in ("==", "!="):
        at, rest = divmod(-const, coefficient)
        points = (at, at + 1) if rest == 0 else ()
    else:
        # The sign changes between the real root and its neighbours.
        root = -const / coefficient
        points = tuple(range(int(root) - 1, int(root) + 3))
        test = _TESTS[operator]
        holds = {p: test(coefficient * p + const) for p in (points[0] - 1, *points)}
        points = tuple(p for p in points if holds[p] != holds[p - 1])
    return tuple(p for p in points if var.low < p < var.high)


def smaller(a: Linear, b: Linear) -> Linear:
    """min(a, b)."""
    return a if compare("<=", a, b) else b


def larger(a: Linear, b: Linear) -> Linear:
    """max(a, b)."""
    return a if compare(">=", a, b) else b
