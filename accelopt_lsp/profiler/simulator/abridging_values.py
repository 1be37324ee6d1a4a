"""Values of loop variables that tell what is decided by them.

While a loop is abridged, its variable is no Python integer but a :class:`LoopValue`: a number,
and how much it changes from one iteration of each running loop to the next. Sums, differences
and multiples of such values are such values again, so the indices of tensors, the offsets of views
and the terms of masks are computed with them as with integers. What the values *decide* is a
condition on an affine form, which holds for so many iterations and no longer:

* a comparison: as long as the sign of the difference stays what it is;
* a quotient or remainder by a constant ``n``: as long as the remainder stays in ``[0, n)``;
* anything else that wants an integer (``range(i)``, ``items[i]``, ``hash(i)``, ``f"{i}"``,
  ``i * j``, ``i ** 2``, ``float(i)``...): in this iteration only.

Each :class:`Loop` keeps the first iteration in which one of the conditions of the present one may
fail. A condition on several loop variables also has to hold, for the outer loops, where an inner
loop's iterations are left out: being affine, it holds there if it does at the last of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np


class FullTraceNeeded(BaseException):
    """What the kernel does next depends on iterations that were left out; trace it in full."""


class LoopIndex(int):
    """The value of a loop variable; an integer that knows where its loop is.

    Attributes:
        first, last: its loop is in its first or last iteration.
        run: the same object in all iterations of one execution of a loop.
    """

    first: bool = False
    last: bool = False
    run: object = None


Terms = tuple[tuple["Loop", int], ...]
"""Loops, outermost first, and the change of a value from one iteration of each to the next."""


class Loop:
    """One execution of an abridged loop.

    Attributes:
        depth: number of loops around it.
        count: iterations in all.
        serial: number of abridged loops and tensors with blocks that were begun before.
        number: iteration that is running.
        limit: first later iteration in which something may be decided otherwise than in this one.
        alive: it is running.
        once: something was made in this iteration that later ones will find.
        joint: conditions of this iteration on other loops as well.
        accesses: what was looked up in tensors with blocks in this iteration, by an index that
            depends on this loop.
    """

    __slots__ = (
        "accesses",
        "alive",
        "count",
        "depth",
        "joint",
        "limit",
        "number",
        "once",
        "serial",
    )

    def __init__(self, depth: int, count: int, serial: int) -> None:
        self.depth = depth
        self.count = count
        self.serial = serial
        self.alive = True
        self.begin(0)

    def begin(self, number: int) -> None:
        """Start an iteration."""
        self.number = number
        self.limit = self.count
        self.once = False
        self.joint: dict[tuple[int, Terms], None] = {}
        self.accesses: dict[Any, Any] = {}

    def bound(self, more: int) -> None:
        """What this iteration decides is decided the same way in so many more, perhaps not in
        others.
        """
        limit = self.number + 1 + more
        if limit < self.limit:
            self.limit = limit


def require(value: int, terms: Terms) -> None:
    """Note that ``value``, which is at least 0, has to stay so."""
    for loop, change in terms:
        if change < 0:
            loop.bound(value // -change)
    if len(terms) > 1:
        for loop, _ in terms[1:]:
            loop.joint[(value, terms)] = None


def within(part: Any, size: int) -> bool:
    """Whether ``0 <= part < size``, as a decision where the part moves."""
    if type(part) is not LoopValue or not 0 <= part.value < size:
        return bool(0 <= part < size)
    value, terms = part.value, part.terms
    for loop, change in terms:
        loop.bound(value // -change if change < 0 else (size - 1 - value) // change)
    if len(terms) > 1:
        less = _scaled(terms, -1)
        for loop, _ in terms[1:]:
            loop.joint[(value, terms)] = loop.joint[(size - 1 - value, less)] = None
    return True


def weighted(parts: Sequence[Any], weights: Sequence[int]) -> Any:
    """Sum of integers and moving values, each times its weight."""
    total = 0
    changes: dict[Loop, int] = {}
    for part, weight in zip(parts, weights, strict=True):
        if type(part) is not LoopValue:
            total += part * weight
            continue
        total += part.value * weight
        for loop, change in part.changes:
            if loop.alive:
                changes[loop] = changes.get(loop, 0) + change * weight
    terms = [term for term in changes.items() if term[1]]
    if not terms:
        return total
    if len(terms) > 1:
        terms.sort(key=_depth)
    return LoopValue(total, tuple(terms))


def spread(loop: Loop, skipped: int) -> None:
    """Conditions of the iteration that stands for ``skipped`` more, for the loops around."""
    for value, terms in loop.joint:
        there = value + sum(change for other, change in terms if other is loop) * skipped
        require(there, tuple([term for term in terms if term[0] is not loop]))


def _scaled(terms: Terms, factor: int) -> Terms:
    return tuple([(loop, change * factor) for loop, change in terms])


def _joined(left: Terms, right: Terms, sign: int) -> Terms:
    if not left:
        return right if sign == 1 else _scaled(right, sign)
    if not right:
        return left
    changes: dict[Loop, int] = dict(left)
    for loop, change in right:
        changes[loop] = changes.get(loop, 0) + sign * change
    terms = [(loop, change) for loop, change in changes.items() if change]
    terms.sort(key=_depth)
    return tuple(terms)


def _depth(term: tuple[Loop, int]) -> int:
    return term[0].depth


def make(value: int, terms: Terms) -> Any:
    """A value that moves, or a plain integer where it does not."""
    return LoopValue(value, terms) if terms else value


_NUMBERS = (int, np.integer)
_OTHERS = (np.unsignedinteger, np.int8, np.int16, np.int32)
_OPERANDS = (int, float, complex, np.generic, np.ndarray, str, bytes, list, tuple)
_COMPARISONS = {"__lt__": "__gt__", "__le__": "__ge__", "__eq__": "__eq__", "__ne__": "__ne__"}
_REFLECTED = _COMPARISONS | {name: reflected for reflected, name in _COMPARISONS.items()}
for _name in "add sub mul truediv floordiv mod divmod pow and or xor lshift rshift".split():
    _REFLECTED[f"__{_name}__"] = f"__r{_name}__"
    _REFLECTED[f"__r{_name}__"] = f"__{_name}__"


class LoopValue:
    """An integer that changes by constants from one iteration of running loops to the next.

    For ``isinstance`` it is an ``int``, as the loop variables of kernels are.

    Attributes:
        value: what it is in the present iteration.
        changes: loops it depends on, see :data:`Terms`; some may have ended since.
        loop: the loop it is the variable of, if it is one.
    """

    __slots__ = ("changes", "loop", "value")

    def __init__(self, value: int, changes: Terms, loop: Loop | None = None) -> None:
        self.value = value
        self.changes = changes
        self.loop = loop

    @property
    def terms(self) -> Terms:
        """Loops that are running still."""
        changes = self.changes
        for loop, _ in changes:
            if not loop.alive:
                return tuple([term for term in changes if term[0].alive])
        return changes

    @property
    def __class__(self) -> Any:
        return int if self.loop is None else LoopIndex

    @__class__.setter
    def __class__(self, other: Any) -> None:
        raise TypeError("the type of a loop variable cannot be changed")

    def fix(self) -> int:
        """The integer, whatever it is needed for: what follows holds for this iteration only."""
        for loop, _ in self.terms:
            loop.bound(0)
        return self.value

    @property
    def first(self) -> bool:
        """Its loop is in its first iteration."""
        return self.loop is not None and bool(self._position() == 0)

    @property
    def last(self) -> bool:
        """Its loop is in its last iteration."""
        return self.loop is not None and bool(self._position() == self.loop.count - 1)

    def _position(self) -> Any:
        loop = self.loop
        assert loop is not None
        return make(loop.number, ((loop, 1),) if loop.alive else ())

    # Affine arithmetic.

    def _plus(self, other: Any, sign: int) -> Any:
        kind = type(other)
        if kind is int:
            terms = self.terms
            return (
                LoopValue(self.value + sign * other, terms) if terms else self.value + sign * other
            )
        if kind is LoopValue:
            return make(self.value + sign * other.value, _joined(self.terms, other.terms, sign))
        if issubclass(kind, _NUMBERS):
            return make(self.value + sign * int(other), self.terms)
        return NotImplemented

    def _sum(self, other: Any, sign: int) -> Any:
        # Sums with NumPy's other integers have their type, and may overflow.
        return NotImplemented if issubclass(type(other), _OTHERS) else self._plus(other, sign)

    def __add__(self, other: Any) -> Any:
        found = self._sum(other, 1)
        return self._number("__add__", other) if found is NotImplemented else found

    def __radd__(self, other: Any) -> Any:
        found = self._sum(other, 1)
        return self._number("__radd__", other) if found is NotImplemented else found

    def __sub__(self, other: Any) -> Any:
        found = self._sum(other, -1)
        return self._number("__sub__", other) if found is NotImplemented else found

    def __rsub__(self, other: Any) -> Any:
        found = self._sum(other, -1)
        return self._number("__rsub__", other) if found is NotImplemented else -found

    def __neg__(self) -> Any:
        return make(-self.value, _scaled(self.terms, -1))

    def __pos__(self) -> Any:
        return make(self.value, self.terms)

    def __mul__(self, other: Any) -> Any:
        kind = type(other)
        if kind is LoopValue:
            other = other.fix() if other.terms else other.value
        elif kind is not int:
            if not issubclass(kind, _NUMBERS) or issubclass(kind, _OTHERS):
                return self._number("__mul__", other)
            other = int(other)
        return make(self.value * other, _scaled(self.terms, other) if other else ())

    __rmul__ = __mul__

    def _divided(self, other: Any) -> tuple[Any, Any] | None:
        """Quotient and remainder; None where they are none of an affine form."""
        kind = type(other)
        if kind is LoopValue:
            if other.terms:
                return None
            other = other.value
        elif not issubclass(kind, _NUMBERS) or issubclass(kind, _OTHERS):
            return None
        divisor = int(other)
        if divisor <= 0:
            return None
        quotient, remainder = divmod(self.value, divisor)
        whole: list[tuple[Loop, int]] = []
        rest: list[tuple[Loop, int]] = []
        for loop, change in self.terms:
            steps = abs(change) // divisor
            steps = steps if change > 0 else -steps
            if steps:
                whole.append((loop, steps))
            if change - steps * divisor:
                rest.append((loop, change - steps * divisor))
        if rest:
            left = tuple(rest)
            require(remainder, left)
            require(divisor - 1 - remainder, _scaled(left, -1))
        return make(quotient, tuple(whole)), make(remainder, tuple(rest))

    def __floordiv__(self, other: Any) -> Any:
        found = self._divided(other)
        return self._number("__floordiv__", other) if found is None else found[0]

    def __mod__(self, other: Any) -> Any:
        found = self._divided(other)
        return self._number("__mod__", other) if found is None else found[1]

    def __divmod__(self, other: Any) -> Any:
        found = self._divided(other)
        return self._number("__divmod__", other) if found is None else found

    # Comparisons.

    def _difference(self, other: Any) -> Any:
        """A value or an integer that compares with 0 as this does with ``other``; else None."""
        found = self._plus(other, -1)
        return None if found is NotImplemented else found

    def _below(self, other: Any, shift: int) -> bool | None:
        """Whether ``self - other + shift`` is negative."""
        difference = self._difference(other)
        if difference is None:
            return None
        if type(difference) is int:
            return difference + shift < 0
        value, terms = difference.value + shift, difference.changes
        if value < 0:
            require(-1 - value, _scaled(terms, -1))
            return True
        require(value, terms)
        return False

    def __lt__(self, other: Any) -> Any:
        found = self._below(other, 0)
        return self._number("__lt__", other) if found is None else found

    def __ge__(self, other: Any) -> Any:
        found = self._below(other, 0)
        return self._number("__ge__", other) if found is None else not found

    def __le__(self, other: Any) -> Any:
        found = self._below(other, -1)
        return self._number("__le__", other) if found is None else found

    def __gt__(self, other: Any) -> Any:
        found = self._below(other, -1)
        return self._number("__gt__", other) if found is None else not found

    def __eq__(self, other: object) -> Any:
        difference = self._difference(other)
        if difference is None:
            return self._number("__eq__", other)
        if type(difference) is int:
            return difference == 0
        value, terms = difference.value, difference.changes
        if value == 0:
            require(0, terms)
            require(0, _scaled(terms, -1))
            return True
        if value > 0:
            require(value - 1, terms)
        else:
            require(-1 - value, _scaled(terms, -1))
        return False

    def __ne__(self, other: object) -> Any:
        found = self.__eq__(other)
        return found if found is NotImplemented else not found

    def __bool__(self) -> bool:
        return not self.__eq__(0)

    def __abs__(self) -> Any:
        return -self if self < 0 else +self

    # Everything else wants the integer.

    def _number(self, name: str, other: Any) -> Any:
        """An operation that is none of affine forms, with the plain integer.

        Operands that know what to do with a loop variable (indices, tiles) are asked first.
        """
        if type(other) is LoopValue:
            other = other.fix()
        elif not isinstance(other, _OPERANDS):
            return NotImplemented
        number = self.fix() if self.loop is None else LoopIndex(self.fix())
        found = getattr(number, name)(other)
        if found is NotImplemented:
            reflected = getattr(other, _REFLECTED[name], None)
            return NotImplemented if reflected is None else reflected(number)
        return found

    def __hash__(self) -> int:
        return hash(self.fix())

    def __index__(self) -> int:
        return self.fix()

    __int__ = __trunc__ = __floor__ = __ceil__ = __index__

    def __float__(self) -> float:
        return float(self.fix())

    def __complex__(self) -> complex:
        return complex(self.fix())

    def __round__(self, digits: int | None = None) -> int:
        return round(self.fix(), digits or 0)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return np.asarray(self.fix(), *args)

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return getattr(function, method)(*map(fixed, inputs), **options)

    def __repr__(self) -> str:
        return repr(self.fix())

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(self.fix(), spec)

    def __copy__(self) -> LoopValue:
        return self

    def __deepcopy__(self, memo: Any) -> LoopValue:
        return self

    def __reduce__(self) -> Any:
        return int, (self.fix(),)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(int, name):
            raise AttributeError(f"'int' object has no attribute {name!r}")
        return getattr(self.fix(), name)


def _with_integer(name: str) -> Any:
    def operation(self: LoopValue, *others: Any) -> Any:
        if len(others) == 1:
            return self._number(name, others[0])
        return getattr(self.fix(), name)(*map(fixed, others))

    operation.__name__ = name
    return operation


for _name in (
    "truediv rtruediv rfloordiv rmod rdivmod pow rpow and rand or ror xor rxor lshift rlshift "
    "rshift rrshift invert"
).split():
    setattr(LoopValue, f"__{_name}__", _with_integer(f"__{_name}__"))


def plain(value: Any) -> int:
    """The number itself, for what decides nothing."""
    return value.value if type(value) is LoopValue else value


def fixed(value: Any) -> Any:
    """An integer for a value that decides about what follows."""
    return value.fix() if type(value) is LoopValue else value


def loops_of(value: Any) -> Iterator[Loop]:
    """Running loops that a value depends on."""
    if type(value) is LoopValue:
        for loop, _ in value.terms:
            yield loop
