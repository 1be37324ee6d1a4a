"""What the interpreter computes with, besides Python's own numbers, strings and tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field, frozen

from accelopt_lsp.analysis.affine import (
    Affine,
    Linear,
    Undecided,
    Var,
    add,
    bounds,
    compare,
    floordiv,
    modulo,
    substitute,
    subtract,
)
from accelopt_lsp.analysis.objects import (
    MISSING,
    Bound,
    ClassValue,
    Descriptor,
    EnumInt,
    EnumStr,
    Field,
    FieldSpec,
    Function,
    Instance,
    NamedTuple,
    Super,
    like_tuple,
)
from accelopt_lsp.analysis.views import Blocks, Fault, Placement, Storage, View
from accelopt_lsp.nki.dtypes import DType

if TYPE_CHECKING:
    from accelopt_lsp.analysis.modules import Home

Value = Any
__all__ = [
    "MISSING",
    "Blocks",
    "Bound",
    "ClassValue",
    "Descriptor",
    "DictValue",
    "DynamicSlice",
    "EnumInt",
    "EnumStr",
    "Fault",
    "Field",
    "FieldSpec",
    "Function",
    "Grid",
    "HostArray",
    "IndexArray",
    "Instance",
    "Iteration",
    "Linear",
    "ListValue",
    "Mask",
    "Method",
    "ModuleValue",
    "NamedTuple",
    "ParDim",
    "Placement",
    "Range",
    "Ref",
    "Repeat",
    "Storage",
    "Super",
    "Unknown",
    "Value",
    "View",
    "adopted",
    "find_unknown",
    "flat_length",
    "item_at",
    "like_tuple",
    "list_item",
    "replace_var",
    "type_signature",
    "written_out",
]


@frozen(slots=True, eq=False)
class Unknown:
    """A value that analysis does not know, with the reason; it spreads through expressions.

    ``number``: at least it is known to be a number, not a tensor.
    """

    reason: str
    number: bool = False


@frozen(slots=True)
class Ref:
    """A module or public name by its canonical path, such as ``nl`` or ``nisa.exp``."""

    path: str

    @property
    def last(self) -> str:
        return self.path.rpartition(".")[2]


@frozen(slots=True, eq=False)
class ModuleValue:
    """A module of the checkout."""

    home: Home


@frozen(slots=True)
class ParDim:
    """``nl.par_dim(size)``: marks the partition dimension in a legacy shape."""

    size: int


@frozen(slots=True, eq=False)
class HostArray:
    """A NumPy array on the host: shape and type, no contents."""

    shape: tuple[int, ...]
    dtype: DType | None


@frozen(slots=True, eq=False)
class Method:
    """An attribute of a value that is called: ``tile.broadcast_to``."""

    owner: Value
    name: str


@frozen(slots=True, eq=False)
class Range:
    """``range(...)`` or a loop of ``nki.language``."""

    start: Linear
    stop: Linear
    step: int
    kind: str = "range"

    def length(self) -> int:
        """Number of iterations.

        Raises:
            NeedSplit, Undecided: it depends on an outer loop.
        """
        span = subtract(self.stop, self.start)
        if isinstance(span, int):
            return max(0, -(-span // self.step))
        count = floordiv(add(span, self.step - 1 if self.step > 0 else self.step + 1), self.step)
        if isinstance(count, int):
            return max(0, count)
        # A changing number of iterations: take each outer iteration alone.
        from accelopt_lsp.analysis.affine import split

        raise split(count.terms, f"the number of iterations is {count}")


@frozen(slots=True, eq=False)
class IndexArray:
    """``nl.arange`` and what is computed from it: ``base + sum(coefficient * position)``.

    Attributes:
        shape: sizes of its axes.
        coefficients: by axis.
        base: value at position 0.
    """

    shape: tuple[int, ...]
    coefficients: tuple[int, ...]
    base: Linear

    def bounds(self) -> tuple[int, int]:
        low, high = bounds(self.base)
        for size, coefficient in zip(self.shape, self.coefficients, strict=True):
            reach = coefficient * (size - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
        return low, high


@frozen(slots=True, eq=False)
class Mask:
    """Conjunction of ``expression >= 0`` over index arrays; None marks one not understood."""

    terms: tuple[IndexArray | None, ...]


@frozen(slots=True, eq=False)
class Grid:
    """``nl.mgrid[a:b, c:d]``: unpacks into index arrays, which ``.p``, ``.x``, ``.y`` name."""

    axes: tuple[IndexArray, ...]


@frozen(slots=True)
class DynamicSlice:
    """``nl.ds(start, size)``; ``start`` may be a register, or one number in SBUF."""

    start: Any
    size: int


@frozen(slots=True, eq=False)
class Iteration:
    """What a loop runs over: how many items, and each of them by its number.

    ``symbolic``: items may be asked for by a loop variable; else each is its own. ``loops``: those
    open when Python made an iterator of it, which gives its items once; ``uses`` has an entry then.
    """

    length: int
    item: Callable[[Linear], Value]
    symbolic: bool = True
    loops: tuple[Var, ...] | None = None
    uses: list[bool] = field(factory=list)


@frozen(slots=True, eq=False)
class Repeat:
    """Items that a loop appended to a list: ``items`` once per iteration of ``var``."""

    var: Var
    low: int
    high: int
    items: tuple[Value, ...]

    def __len__(self) -> int:
        return (self.high - self.low) * flat_length(self.items)


@define(slots=True, eq=False)
class ListValue:
    """A Python list; runs of items that a loop appended stay symbolic.

    Attributes:
        items: elements and runs of elements.
        loops: visits of loops that were open when it was created.
        shadow: the list of which this is one iteration's likeness, if it is one.
        holder: where a likeness was taken from: (list, index), or the likeness that holds it.
        fixed: it is a tuple, though with runs in it.
        unordered: it is a set: each item once.
    """

    items: list[Value] = field(factory=list)
    loops: tuple[Var, ...] = ()
    shadow: ListValue | None = None
    fixed: bool = False
    holder: Any = None
    unordered: bool = False


SOME_KEY = Unknown("a key of the dictionary is not known")
"""Key of dictionaries which hold something under a key that is not known."""


class DictValue(dict[Any, Value]):
    """A Python dictionary; ``loops`` and ``shadow`` as in :class:`ListValue`."""

    __slots__ = ("holder", "loops", "shadow")

    def __init__(self, items: Mapping[Any, Value], loops: tuple[Var, ...] = ()) -> None:
        super().__init__(items)
        self.loops = loops
        self.shadow: DictValue | None = None
        self.holder: Any = None


def flat_length(items: tuple[Value, ...] | list[Value]) -> int:
    """Number of elements, runs included."""
    if Repeat not in map(type, items):
        return len(items)
    return sum(len(i) if isinstance(i, Repeat) else 1 for i in items)


def list_item(items: tuple[Value, ...] | list[Value], index: Linear) -> Value:
    """Element at an index, which may depend on loop variables.

    Raises:
        IndexError: out of range.
        NeedSplit, Undecided: which element it is depends on the iteration.
    """
    if type(index) is int and Repeat not in map(type, items):
        try:
            return items[index]
        except IndexError:
            raise IndexError(f"index {index} of a list with {len(items)} elements") from None
    length = flat_length(items)
    low, high = bounds(index)
    if low < 0 and high < 0:
        return list_item(items, add(index, length))
    if low < 0 or high >= length:
        if isinstance(index, int):
            raise IndexError(f"index {index} of a list with {length} elements")
        raise Undecided(f"index {index} may leave a list of {length} elements")
    position = 0
    for item in items:
        size = len(item) if isinstance(item, Repeat) else 1
        if position <= low and high < position + size:
            if not isinstance(item, Repeat):
                return item
            return _repeat_item(item, subtract(index, position))
        position += size
    # The index crosses runs: find the first border and take the sides apart.
    border = 0
    for item in items:
        border += len(item) if isinstance(item, Repeat) else 1
        if low < border <= high:
            compare("<", index, border)
    raise Undecided(f"index {index} reaches over several runs of a list")


def _repeat_item(run: Repeat, offset: Linear) -> Value:
    each = flat_length(run.items)
    if each == 1:
        iteration = add(offset, run.low)
        inner: Linear = 0
    else:
        iteration = add(floordiv(offset, each), run.low)
        inner = modulo(offset, each)
    return replace_var(list_item(run.items, inner), run.var, iteration)


def replace_var(value: Value, var: Var, replacement: Linear) -> Value:
    """A value with a loop variable replaced."""
    if isinstance(value, Affine):
        return substitute(value, var, replacement)
    if isinstance(value, View):
        offset = substitute(value.offset, var, replacement)
        block = tuple(substitute(b, var, replacement) for b in value.block)
        if offset == value.offset and block == value.block:
            return value
        return evolve(value, offset=offset, block=block, fault=None)
    if isinstance(value, Blocks):
        return Blocks(value.storage, tuple(substitute(b, var, replacement) for b in value.prefix))
    if isinstance(value, IndexArray):
        return evolve(value, base=substitute(value.base, var, replacement))
    if isinstance(value, tuple):
        items = tuple(replace_var(v, var, replacement) for v in value)
        changed = any(a is not b for a, b in zip(items, value, strict=True))
        return like_tuple(value, items) if changed else value
    if isinstance(value, ListValue):
        return _replaced_list(value, var, replacement)
    if isinstance(value, Repeat):
        return evolve(value, items=tuple(replace_var(v, var, replacement) for v in value.items))
    if isinstance(value, Instance | DictValue) and var in value.loops:
        return _replaced_table(value, var, replacement)
    if isinstance(value, Method):
        owner = replace_var(value.owner, var, replacement)
        return value if owner is value.owner else Method(owner, value.name)
    parts = _PARTS.get(value.__class__)
    return value if parts is None else _replaced_parts(value, parts, var, replacement)


_PARTS: dict[type, tuple[str, ...]] = {
    Bound: ("function", "args", "kwargs"),
    Function: ("defaults", "keyword_defaults"),
    Range: ("start", "stop"),
    DynamicSlice: ("start",),
    Mask: ("terms",),
    Grid: ("axes",),
    slice: ("start", "stop", "step"),
}
"""What values hold that may depend on a loop's variable."""


def _replaced_parts(value: Value, names: tuple[str, ...], var: Var, replacement: Linear) -> Value:
    """A value some parts of which depend on a loop's variable."""
    new: dict[str, Value] = {}
    for name in names:
        part = getattr(value, name)
        found: Value
        if isinstance(part, list):
            found = [replace_var(v, var, replacement) for v in part]
            same = all(a is b for a, b in zip(found, part, strict=True))
        elif isinstance(part, Mapping):
            found = {k: replace_var(v, var, replacement) for k, v in part.items()}
            same = all(found[k] is v for k, v in part.items())
        else:
            found = replace_var(part, var, replacement)
            same = found is part or (isinstance(part, Affine) and found == part)
        if not same:
            new[name] = found
    if not new:
        return value
    if isinstance(value, slice):
        return slice(*(new.get(name, getattr(value, name)) for name in names))
    return evolve(value, **new)


def _replaced_list(value: ListValue, var: Var, replacement: Linear) -> ListValue:
    items = [replace_var(v, var, replacement) for v in value.items]
    if var not in value.loops and all(a is b for a, b in zip(items, value.items, strict=True)):
        return value
    copy = ListValue(
        items, _outside(value.loops, var), value, value.fixed, unordered=value.unordered
    )
    _hold(copy, items)
    return copy


def _replaced_table(value: Instance | DictValue, var: Var, replacement: Linear) -> Value:
    """One iteration's likeness of an object that a loop made."""
    loops = _outside(value.loops, var)
    if isinstance(value, DictValue):
        copy = DictValue({k: replace_var(v, var, replacement) for k, v in value.items()}, loops)
        copy.shadow = value
        _hold(copy, copy.values())
        return copy
    fields = {k: replace_var(v, var, replacement) for k, v in value.fields.items()}
    instance = Instance(value.cls, fields, loops, value)
    _hold(instance, fields.values())
    return instance


def _hold(holder: Value, items: Iterable[Value]) -> None:
    """Tell likenesses inside a likeness where they are."""
    for item in items:
        if isinstance(item, Instance | ListValue | DictValue) and item.shadow is not None:
            if item.holder is None:
                item.holder = holder


def _outside(loops: tuple[Var, ...], var: Var) -> tuple[Var, ...]:
    return loops[: loops.index(var)] if var in loops else loops


def adopted(value: Value, undo: list[tuple[Any, Any]] | None = None) -> Value:
    """A likeness that takes the place of what it is like: it may change from now on.

    ``undo`` takes (likeness, what it was like) of all that were adopted.
    """
    if not isinstance(value, Instance | ListValue | DictValue) or value.shadow is None:
        return value
    if undo is not None:
        undo.append((value, value.shadow))
    value.shadow = None
    inner: Iterable[Value] = value.items if isinstance(value, ListValue) else ()
    if isinstance(value, Instance):
        inner = value.fields.values()
    elif isinstance(value, DictValue):
        inner = value.values()
    for item in inner:
        adopted(item, undo)
    return value


def written_out(items: tuple[Value, ...] | list[Value]) -> list[Value]:
    """Items with every run written out."""
    found: list[Value] = []
    for item in items:
        if not isinstance(item, Repeat):
            found.append(item)
            continue
        rounds = range(item.low, item.high)
        each = (adopted(replace_var(i, item.var, n)) for n in rounds for i in item.items)
        found.extend(written_out(list(each)))
    return found


def item_at(owner: ListValue, index: Linear) -> Value:
    """An element of a list; a likeness remembers where it was taken from.

    Raises:
        IndexError, NeedSplit, Undecided: as :func:`list_item`.
    """
    found = list_item(owner.items, index)
    if isinstance(found, Instance | ListValue | DictValue) and found.shadow is not None:
        if found.holder is None:
            found.holder = (owner, index)
    return found


def find_unknown(value: Value) -> Unknown | None:
    """The first unknown in a value or in what it contains."""
    if isinstance(value, Unknown):
        return value
    children: Iterator[Value] | Mapping[Any, Value] | tuple[Value, ...] | list[Value] = ()
    if isinstance(value, tuple):
        children = value
    elif isinstance(value, ListValue):
        children = value.items
    elif isinstance(value, Repeat):
        children = value.items
    for child in children:
        found = find_unknown(child)
        if found is not None:
            return found
    return None


MAX_SIGNATURE = 64


def type_signature(value: Value, depth: int = 4) -> Any:
    """What a value is like, apart from identity: to see whether a loop has settled."""
    if isinstance(value, View):
        return ("view", value.operand(), value.storage.kind == "input")
    if isinstance(value, tuple):
        return ("tuple", tuple(type_signature(v, depth) for v in value))
    if isinstance(value, Affine):
        return ("affine", value)
    if isinstance(value, bool | int | float | str | None | DType | Ref):
        return ("plain", type(value).__name__, value)
    if isinstance(value, Unknown):
        return ("unknown",)
    if depth and isinstance(value, ListValue) and len(value.items) <= MAX_SIGNATURE:
        return ("list", tuple(type_signature(v, depth - 1) for v in value.items))
    if depth and isinstance(value, Instance) and value.cls.kind != "enum":
        fields = value.fields.items()
        return (
            "object",
            id(value.cls),
            tuple((k, type_signature(v, depth - 1)) for k, v in fields),
        )
    return ("object", id(value))
