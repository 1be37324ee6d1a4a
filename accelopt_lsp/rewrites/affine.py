"""Integer expressions as sums of symbols, and the index regions built from them.

A symbol is a loop variable, an index axis (``nl.arange``) or an integer that is not known.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen


@frozen(slots=True, eq=False)
class Symbol:
    """One unknown of an affine form; two symbols are equal only if they are the same object.

    Attributes:
        name: for people.
        kind: ``loop``, ``axis`` or ``size``.
        extent: number of values it takes, from 0; None if unknown.
        position: of an axis: the dimension of the index array that it varies along.
    """

    name: str
    kind: str
    extent: int | None = None
    position: int | None = None


@frozen(slots=True)
class Affine:
    """``constant + sum(coefficient * symbol)``; coefficients are never 0."""

    constant: int = 0
    terms: Mapping[Symbol, int] = field(factory=dict)

    @classmethod
    def of(cls, symbol: Symbol) -> Affine:
        return cls(0, {symbol: 1})

    @property
    def value(self) -> int | None:
        """The number, if no symbol is left."""
        return None if self.terms else self.constant

    def coefficient(self, symbol: Symbol) -> int:
        return self.terms.get(symbol, 0)

    def symbols(self, kind: str | None = None) -> frozenset[Symbol]:
        return frozenset(s for s in self.terms if kind is None or s.kind == kind)

    def plus(self, other: Affine) -> Affine:
        terms = dict(self.terms)
        for symbol, coefficient in other.terms.items():
            total = terms.get(symbol, 0) + coefficient
            if total:
                terms[symbol] = total
            else:
                terms.pop(symbol, None)
        return Affine(self.constant + other.constant, terms)

    def times(self, factor: int) -> Affine:
        if factor == 0:
            return Affine()
        return Affine(self.constant * factor, {s: c * factor for s, c in self.terms.items()})

    def minus(self, other: Affine) -> Affine:
        return self.plus(other.times(-1))

    def without(self, *symbols: Symbol) -> Affine:
        return Affine(self.constant, {s: c for s, c in self.terms.items() if s not in symbols})

    def replaced(self, symbol: Symbol, by: Affine) -> Affine:
        coefficient = self.coefficient(symbol)
        return self.without(symbol).plus(by.times(coefficient)) if coefficient else self

    def floor_divided(self, divisor: int) -> Affine | None:
        """The quotient, where it is exact."""
        if divisor == 0:
            return None
        if self.value is not None:
            return Affine(self.value // divisor)
        if self.constant % divisor or any(c % divisor for c in self.terms.values()):
            return None
        return Affine(self.constant // divisor, {s: c // divisor for s, c in self.terms.items()})


@frozen(slots=True)
class Dim:
    """One dimension of a region: ``extent`` elements from ``start`` on.

    Attributes:
        start: first index.
        extent: number of elements; None if unknown.
        step: distance of neighbours.
        point: a single index, which removes the dimension from the result.
        axis: the index axis that runs over the dimension, for arange-style indexing.
    """

    start: Affine
    extent: int | None
    step: int = 1
    point: bool = False
    axis: Symbol | None = None

    def symbols(self, kind: str | None = None) -> frozenset[Symbol]:
        return self.start.symbols(kind)


Region = tuple[Dim, ...]


def region_symbols(region: Region, kind: str | None = "loop") -> frozenset[Symbol]:
    """All loop variables that a region depends on."""
    return frozenset(s for dim in region for s in dim.symbols(kind))
