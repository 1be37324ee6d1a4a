"""What a kernel's Python carries from one iteration of a loop to the next.

A :class:`Snapshot` walks everything that the body of a loop can reach: the variables of the
function that runs it, with what is in their lists, dictionaries and objects; the cells and
defaults of functions; the globals, class attributes and attributes of the user's modules that
any function in reach names; and the call that the session holds back. It keeps two lists: what
must be the same after every iteration, and the numbers that may move (values of loop variables,
storages of tiles). Two snapshots tell whether an iteration did nothing but move these.

What it cannot see through (iterators, generators, registers, run-time addresses, large arrays,
objects of extension modules) makes the loop one that is not abridged.
"""

from __future__ import annotations

import functools
import gc
from array import array
from collections import deque
from enum import Enum
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import TYPE_CHECKING, Any

import numpy as np

from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.profiler.simulator.abridging_reach import Reach, Unprovable, ours, users
from accelopt_lsp.profiler.simulator.abridging_values import Loop, LoopIndex, LoopValue
from accelopt_lsp.profiler.simulator.blocks import BlockTable, BlockTensor
from accelopt_lsp.profiler.simulator.creation import MemoryRegion, PartitionSize
from accelopt_lsp.profiler.simulator.elements import ElementType
from accelopt_lsp.profiler.simulator.hook import StandIn
from accelopt_lsp.profiler.simulator.indexing import Affine, DynamicSlice, Grid
from accelopt_lsp.profiler.simulator.masks import _UNKNOWN, Mask
from accelopt_lsp.profiler.simulator.memory import Memory
from accelopt_lsp.profiler.simulator.objects import NKIObject
from accelopt_lsp.profiler.simulator.registers import Register
from accelopt_lsp.profiler.simulator.run_time import RunTimeIndex
from accelopt_lsp.profiler.simulator.tensors import Tensor

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.session import Session


_ATOMS = frozenset({int, str, float, bool, bytes, complex, type(None), type(Ellipsis)})
_LARGEST_ARRAY = 1 << 16
_STEADY = frozenset(
    "__future__ _abc _operator abc dataclasses datetime decimal enum fractions inspect logging "
    "numbers operator pathlib re string types typing uuid warnings".split()
)
"""Modules of the standard library whose objects do not change, or not what a kernel does."""


class Snapshot:
    """Everything in reach at the end of an iteration.

    Attributes:
        same: what must not change, in the order in which it was met.
        values, memories, tables: what may move, in that order.
    """

    __slots__ = (
        "_kept",
        "_met",
        "affines",
        "loop",
        "masks",
        "memories",
        "numbers",
        "reach",
        "same",
        "tables",
        "tensors",
        "values",
    )

    def __init__(
        self,
        session: Session,
        frame: FrameType,
        carried: frozenset[str],
        loop: Loop,
        reach: Reach,
    ) -> None:
        self.loop = loop
        self.reach = reach
        self.same: list[Any] = []
        self.values: list[LoopValue] = []
        self.memories: list[Memory] = []
        self.tables: list[BlockTable] = []
        self.numbers: list[tuple[int, ...]] = []
        self.tensors: list[Tensor] = []
        self.affines: list[Affine] = []
        self.masks: list[Mask] = []
        self._met: dict[Any, int] = {}
        self._kept: list[Any] = []
        code = frame.f_code
        cells = frozenset(code.co_cellvars + code.co_freevars)
        module = code.co_name == "<module>"
        for name, value in frame.f_locals.items():
            if name in carried or name in cells or module:
                self.same.append(name)
                self.visit(value)
        self._names(frame.f_code, frame.f_globals)
        self._session(session, frame)
        self.numbers = [
            tuple([v.value for v in self.values]),
            tuple([m.id for m in self.memories]),
            tuple([n for t in self.tables for n in (-2 - t.born, *(t.ids or ()))]),
        ]

    def _session(self, session: Session, frame: FrameType) -> None:
        self.same += (session.in_order, len(session.hbm_tensors), session.placed is None)
        pending = session.pending
        if pending is None:
            return
        if pending.reduces is not None:
            raise Unprovable
        self.itself(pending.plan)
        self.same += (pending.frame is frame, pending.site.id, pending.line)
        self.same.append(pending.empty)
        self.visit(pending.cut)
        self.visit(pending.where)
        self.visit(pending.bound)
        self.visit(pending.result)

    def _names(self, code: CodeType, namespace: dict[str, Any]) -> None:
        for space, name in self.reach.of(code, namespace):
            key = (id(space), name)
            if key not in self._met:
                self._met[key] = len(self._met)
                value = space.get(name, Ellipsis)
                if isinstance(value, ModuleType):
                    # Its attributes are among the names.
                    self.itself(value)
                else:
                    self.visit(value)

    def visit(self, value: Any) -> None:
        kind = type(value)
        same = self.same
        if kind in _ATOMS:
            same += (kind, value.hex() if kind is float else value)
            return
        known = self._met.get(id(value))
        if known is not None:
            same += ("again", known)
            return
        self._met[id(value)] = len(self._met)
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, value)
        else:
            _other(self, value)

    def key(self, key: Any) -> None:
        """Visit the key of a table."""
        if type(key) is tuple:
            for part in key:
                self.key(part)
        elif type(key) is LoopValue:
            # Moving it would move it out of its place in the table.
            raise Unprovable
        else:
            self.visit(key)

    def itself(self, value: Any) -> None:
        """Something that does not change, and is not looked into."""
        # Kept, so that nothing else gets its identity before the next snapshot.
        self._kept.append(value)
        self.same.append(id(value))

    def continues(self, before: Snapshot, storages: int, records: int) -> bool:
        """Whether the iteration in between only moved what may move.

        Args:
            storages, records: how many each iteration adds.
        """
        if self.same != before.same:
            return False
        values, memories, tables = self.numbers
        old_values, old_memories, old_tables = before.numbers
        for value, number, old in zip(self.values, values, old_values, strict=True):
            if number - old != _change(value, self.loop):
                return False
        for number, old in zip(memories, old_memories, strict=True):
            if number != old and number - old != storages:
                return False
        if len(tables) != len(old_tables):
            return False
        for number, old in zip(tables, old_tables, strict=True):
            # A number of records, as negative number; nothing; or a storage.
            change = -records if old < -1 else 0 if old == -1 else storages
            if number - old != change:
                return False
        return True

    def moved(self, before: Snapshot) -> list[Memory]:
        """Tiles that belong to another iteration than in the snapshot before."""
        pairs = zip(self.memories, self.numbers[1], before.numbers[1], strict=True)
        return [memory for memory, number, old in pairs if number != old]

    def move(self, moved: list[Memory], count: int, storages: int, records: int) -> None:
        """Make what is in reach that of ``count`` iterations later."""
        for memory in moved:
            memory.id += count * storages
        for value in self.values:
            value.value += count * _change(value, self.loop)
        seen = set(map(id, moved))
        for table in self.tables:
            table.born += count * records
            table.ids = [n if n < 0 else n + count * storages for n in table.ids or ()]
            for tile in table.made.values():
                memory = tile.settle()
                if id(memory) not in seen:
                    seen.add(id(memory))
                    memory.id += count * storages
                tile._region = tile.views = None
        for tensor in self.tensors:
            tensor._region = tensor.views = None
        for affine in self.affines:
            affine._mask = affine._column = affine._line = None
        for mask in self.masks:
            mask._split, mask._throughout, mask._joined = _UNKNOWN, None, None


def _change(value: LoopValue, loop: Loop) -> int:
    for other, change in value.changes:
        if other is loop:
            return change
    return 0


def _loop_value(self: Snapshot, value: LoopValue) -> None:
    self.same += (LoopValue, tuple([(loop.serial, change) for loop, change in value.terms]))
    self.values.append(value)


def _tensor(self: Snapshot, value: Tensor) -> None:
    if value.dynamic is not None or value.fault is not None:
        raise Unprovable
    self.same += (Tensor, value.shape, value.strides, value.element.name, value.buffer)
    self.same.append(value.augmented)
    self.tensors.append(value)
    self.visit(value.offset)
    self.visit(value.memory)


def _memory(self: Snapshot, value: Memory) -> None:
    products = None if value.products is None else tuple(value.products)
    self.same += (Memory, value.rows, value.row, value.element.name, value.buffer, value.name)
    self.same += (value.line, value.raw, value.constant, products)
    self.visit(value.initial)
    self.memories.append(value)


def _blocks(self: Snapshot, value: BlockTensor) -> None:
    self.same += (BlockTensor, value.blocks, value.tile, value.element.name, value.buffer)
    self.visit(value.prefix)
    table = value.table
    if table.serial < self.loop.serial:
        self.itself(table)
        return
    known = self._met.get(id(table))
    if known is not None:
        self.same.append(known)
        return
    self._met[id(table)] = len(self._met)
    if any(tile.memory is None or tile.memory.products for tile in table.made.values()):
        raise Unprovable
    self.tables.append(table)
    value._views.clear()


def _affine(self: Snapshot, value: Affine) -> None:
    self.same += (Affine, value.shape, value.strides)
    self.affines.append(value)
    self.visit(value.offset)


def _mask(self: Snapshot, value: Mask) -> None:
    self.same.append(Mask)
    self.masks.append(value)
    self.visit(value.terms)


def _sequence(self: Snapshot, value: Any) -> None:
    self.same += (type(value), len(value))
    for part in value:
        self.visit(part)


def _mapping(self: Snapshot, value: dict[Any, Any]) -> None:
    self.same += (dict, len(value))
    for key, part in value.items():
        self.key(key)
        self.visit(part)


def _set(self: Snapshot, value: Any) -> None:
    self.same += (type(value), len(value))
    for part in value:
        self.key(part)


def _function(self: Snapshot, value: FunctionType) -> None:
    self.itself(value.__code__)
    if value.__dict__:
        self.visit(value.__dict__)
    if ours(value.__module__):
        return
    self.visit(value.__defaults__)
    self.visit(value.__kwdefaults__)
    for cell in value.__closure__ or ():
        _cell(self, cell)
    self._names(value.__code__, value.__globals__)


def _cell(self: Snapshot, value: CellType) -> None:
    try:
        inside = value.cell_contents
    except ValueError:
        inside = Ellipsis
    self.visit(inside)


def _method(self: Snapshot, value: MethodType) -> None:
    self.same.append(MethodType)
    self.visit(value.__self__)
    self.visit(value.__func__)


def _builtin(self: Snapshot, value: Any) -> None:
    self.same += (BuiltinFunctionType, value.__name__)
    owner = value.__self__
    if owner is not None and not isinstance(owner, ModuleType):
        self.visit(owner)


def _partial(self: Snapshot, value: Any) -> None:
    self.same.append(functools.partial)
    self.visit(value.func)
    self.visit(value.args)
    self.visit(value.keywords)


def _slice(self: Snapshot, value: Any) -> None:
    self.same.append(type(value))
    if isinstance(value, DynamicSlice):
        self.visit(value.start)
        self.visit(value.size)
        return
    self.visit(value.start)
    self.visit(value.stop)
    self.visit(value.step)


def _array(self: Snapshot, value: Any) -> None:
    if value.nbytes > _LARGEST_ARRAY or value.dtype.hasobject:
        raise Unprovable
    self.same += (value.shape, str(value.dtype), value.tobytes())


def _numbers(self: Snapshot, value: array[Any]) -> None:
    self.same += (value.typecode, value.tobytes())


def _range(self: Snapshot, value: range) -> None:
    self.same += (range, value.start, value.stop, value.step)


_HANDLERS: dict[Any, Any] = {
    LoopValue: _loop_value,
    Tensor: _tensor,
    Memory: _memory,
    BlockTensor: _blocks,
    Affine: _affine,
    Mask: _mask,
    Grid: _sequence,
    tuple: _sequence,
    list: _sequence,
    deque: _sequence,
    dict: _mapping,
    set: _set,
    frozenset: _set,
    FunctionType: _function,
    CellType: _cell,
    MethodType: _method,
    BuiltinFunctionType: _builtin,
    functools.partial: _partial,
    slice: _slice,
    DynamicSlice: _slice,
    np.ndarray: _array,
    array: _numbers,
    range: _range,
    DType: Snapshot.itself,
    ElementType: Snapshot.itself,
    CodeType: Snapshot.itself,
}


def _other(self: Snapshot, value: Any) -> None:
    """Objects of classes that are not known beforehand."""
    kind = type(value)
    if isinstance(value, LoopIndex | PartitionSize):
        self.same += (kind, int(value))
    elif isinstance(value, np.generic):
        self.same += (kind, value.item())
    elif isinstance(value, Enum):
        self.itself(value)
        if users(kind.__module__):
            self.visit(vars(value))
    elif isinstance(value, np.dtype | StandIn):
        self.itself(value)
    elif isinstance(value, ModuleType):
        _module(self, value)
    elif isinstance(value, type):
        self.itself(value)
        for base in (*value.__mro__, *kind.__mro__):
            if users(base.__module__):
                _class(self, base)
    elif isinstance(value, Register | RunTimeIndex):
        raise Unprovable
    elif isinstance(value, MemoryRegion):
        self.same += (MemoryRegion, value.name)
        self.visit(value.address)
    elif ours(kind.__module__) and not isinstance(value, NKIObject):
        self.itself(value)
        function = getattr(value, "function", None)
        if function is not None:
            self.visit(function)
            self.visit(getattr(value, "__dict__", None))
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        self.same.append(kind)
        for part in value:
            self.visit(part)
    elif isinstance(value, tuple | list | dict | set | frozenset | deque):
        raise Unprovable
    elif isinstance(value, int | float | str | bytes):
        self.same += (kind, repr(value))
        self.visit(getattr(value, "__dict__", None))
    elif isinstance(value, staticmethod | classmethod):
        self.visit(value.__func__)
    elif isinstance(value, property):
        self.visit(value.fget)
        self.visit(value.fset)
    elif isinstance(value, functools.cached_property):
        self.visit(value.func)
    elif isinstance(value, functools._lru_cache_wrapper):
        _cached(self, value)
    else:
        _object(self, value, kind)


def _module(self: Snapshot, value: ModuleType) -> None:
    """A module that is not found by its name among a function's globals."""
    self.itself(value)
    if users(value.__name__):
        for name, part in list(vars(value).items()):
            if not name.startswith("__"):
                self.same.append(name)
                self.visit(part)


def _cached(self: Snapshot, value: Any) -> None:
    """A function that remembers its results, which must be such that nothing can change them."""
    self.visit(value.__wrapped__)
    info = value.cache_info()
    self.same.append(info.currsize)
    if info.maxsize is not None and info.currsize:
        # Its results are where nobody can look at them.
        raise Unprovable
    tables = [part for part in gc.get_referents(value) if type(part) is dict]
    waiting: list[Any] = []
    for table in tables:
        if table is not value.__dict__:
            waiting += [*table, *table.values()]
    while waiting:
        part = waiting.pop()
        if type(part) is tuple:
            waiting += part
        elif type(part) not in _ATOMS and not isinstance(part, Enum | DType | ElementType | type):
            raise Unprovable


def _class(self: Snapshot, kind: type) -> None:
    """Attributes of a user's class."""
    if ("class", id(kind)) in self._met:
        return
    self._met[("class", id(kind))] = len(self._met)
    for name, part in list(vars(kind).items()):
        if name in ("__dict__", "__weakref__", "__doc__"):
            continue
        if name.startswith("__") and not isinstance(part, FunctionType):
            continue
        self.same.append(name)
        if isinstance(part, _DESCRIPTORS):
            self.itself(part)
        else:
            self.visit(part)


class _Slots:
    __slots__ = ("one",)


_DESCRIPTORS = (MemberDescriptorType, type(int.__add__), type(str.join))


def _object(self: Snapshot, value: Any, kind: type) -> None:
    if (kind.__module__ or "").partition(".")[0] in _STEADY and kind is not SimpleNamespace:
        self.itself(value)
        return
    slots = [
        (name, part)
        for base in kind.__mro__
        for name, part in vars(base).items()
        if type(part) is MemberDescriptorType
    ]
    if kind is not SimpleNamespace and not _made_by_python(kind, len(slots)):
        raise Unprovable
    self.same.append(kind)
    for base in kind.__mro__:
        if users(base.__module__):
            _class(self, base)
    for name, part in getattr(value, "__dict__", {}).items():
        self.same.append(name)
        self.visit(part)
    for name, slot in slots:
        self.same.append(name)
        try:
            self.visit(slot.__get__(value))
        except AttributeError:
            self.same.append(Ellipsis)


def _made_by_python(kind: type, slots: int) -> bool:
    """Whether nothing is in an object of a class but its attributes.

    Classes of ``class`` statements have room for those, their dictionary and weak references.
    """
    room = object.__basicsize__ + _POINTER * (2 + slots)
    made = all(base is object or base.__flags__ & _MADE_LATER for base in kind.__mro__)
    return made and not kind.__itemsize__ and kind.__basicsize__ <= room


_POINTER = _Slots.__basicsize__ - object.__basicsize__
_MADE_LATER = 1 << 9
"""Flag of classes that are no part of a compiled module (``Py_TPFLAGS_HEAPTYPE``)."""
