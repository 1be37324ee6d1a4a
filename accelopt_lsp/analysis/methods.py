"""Methods of tensors, lists and strings, and ``nki.language`` helpers that issue nothing."""

from __future__ import annotations

import ast
from typing import Any

from attrs import evolve

from accelopt_lsp.analysis import affine, dynamic
from accelopt_lsp.analysis.affine import Affine, Undecided
from accelopt_lsp.analysis.host import host_method
from accelopt_lsp.analysis.issue import call_api
from accelopt_lsp.analysis.machine import MAX_LENGTH, Machine
from accelopt_lsp.analysis.references import as_buffer, as_dtype
from accelopt_lsp.analysis.registers import Register
from accelopt_lsp.analysis.rejections import Rejected
from accelopt_lsp.analysis.sequences import items_of, shared_items
from accelopt_lsp.analysis.sets import set_method
from accelopt_lsp.analysis.tensors import mesh_grid, reshape, select, size, sizes
from accelopt_lsp.analysis.texts import text_method
from accelopt_lsp.analysis.values import (
    SOME_KEY,
    DynamicSlice,
    HostArray,
    IndexArray,
    ListValue,
    Method,
    NamedTuple,
    ParDim,
    Range,
    Ref,
    Unknown,
    Value,
    View,
    flat_length,
    written_out,
)
from accelopt_lsp.nki.dialects import Api, BindError, Dialect, Role
from accelopt_lsp.nki.lowering import lower
from accelopt_lsp.nki.operands import Buffer


def language_call(
    m: Machine, node: ast.AST, api: Api, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """``nl.arange``, ``nl.ds``, loops, program indices, ``nl.loop_reduce``."""
    if api.role is Role.LOOP:
        return _loop(api, args, kwargs)
    if api.name == "nl.arange":
        return _arange(args)
    try:
        bound = api.bind(m.dialect, tuple(args), kwargs)
    except BindError as error:
        return Unknown(str(error))
    if api.name == "nl.par_dim":
        return ParDim(size(bound["size"]))
    if api.name == "nl.ds":
        start = bound["start"]
        if not isinstance(start, int | Affine | Register | View):
            raise Undecided("the start of nl.ds is not known")
        return DynamicSlice(start, size(bound["size"]))
    if api.name == "nl.expand_dims":
        owner = bound.get("data", bound.get("x"))
        return _expand_dims(m, node, owner, bound["axis"])
    if api.name == "nl.program_id":
        axis = bound["axis"]
        return m.program[axis] if isinstance(axis, int) and 0 <= axis < len(m.program) else 0
    if api.name in ("nl.num_programs", "nl.program_ndim"):
        return _programs(m, api, bound)
    if api.name == "nisa.get_nc_version":
        return m.target.generation
    if api.name == "nisa.get_nc_sub_version":
        return 0
    if api.name == "nl.loop_reduce":
        return _loop_reduce(m, node, bound)
    if api.name in _GRIDS:
        return mesh_grid(_GRIDS[api.name])
    if api.name in _MEMORIES:
        buffer = as_buffer(bound["buffer"])
        return Unknown("the buffer is not known") if buffer is None else _holds(api.name, buffer)
    if api.name == "nl.device_print":
        return None
    return Unknown(f"{api.name} is not analyzed", number=api.name == "nl.static_cast")


_GRIDS = {
    "nl.gemm_grid": (slice(0, 128), slice(0, 512)),
    "nl.gemm_stationary_grid": (slice(0, 128), slice(0, 128)),
}
_MEMORIES: dict[str, tuple[Buffer, ...]] = {
    "nl.is_hbm": (Buffer.HBM,),
    "nl.is_sbuf": (Buffer.SBUF,),
    "nl.is_psum": (Buffer.PSUM,),
    "nl.is_on_chip": (Buffer.SBUF, Buffer.PSUM),
}


def _holds(name: str, buffer: Buffer) -> bool:
    return buffer in _MEMORIES[name]


def _expand_dims(m: Machine, node: ast.AST, owner: Value, axis: Value) -> Value:
    """One axis or several; they count in the result."""
    given = axis.items if isinstance(axis, ListValue) else axis
    axes = tuple(size(a) for a in (given if isinstance(given, tuple | list) else (given,)))
    if not isinstance(owner, View):
        return Unknown("nl.expand_dims of something that is no tile")
    rank = len(owner.shape) + len(axes)
    result: Value = owner
    for at in sorted(a % rank for a in axes):
        result = call_method(m, node, Method(result, "expand_dims"), [at], {})
    return result


def _programs(m: Machine, api: Api, bound: dict[str, Any]) -> Value:
    if api.name == "nl.program_ndim":
        return len(m.grid)
    axes = bound.get("axes")
    if axes is None or not isinstance(axes, int):
        return m.grid[0] if len(m.grid) == 1 else (m.grid or 1)
    return m.grid[axes] if 0 <= axes < len(m.grid) else 1


def _loop(api: Api, args: list[Value], kwargs: dict[str, Value]) -> Value:
    given = [kwargs.get(k) for k in ("start", "stop", "step")]
    for position, value in enumerate(args[:3]):
        given[position] = value
    return make_range(given, api.name.partition(".")[2])


def make_range(given: list[Value], kind: str) -> Value:
    """A loop over ``(stop)``, ``(start, stop)`` or ``(start, stop, step)``."""
    start, stop, step = given
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    if kind == "dynamic_range":
        start, stop = (v.number() if isinstance(v, Register) else v for v in (start, stop))
    for value in (start, stop, step):
        if isinstance(value, Unknown):
            return Unknown(f"the number of iterations is not known: {value.reason}")
        if not isinstance(value, int | Affine):
            return Unknown("the number of iterations is not known")
    if isinstance(step, Affine):
        raise affine.split(step.terms, "a step that depends on the iteration")
    if step == 0:
        return Unknown("a loop with step 0")
    return Range(start, stop, step, kind)


def _arange(args: list[Value]) -> Value:
    values = [size(a) if n or len(args) == 1 else a for n, a in enumerate(args)]
    if not values or len(values) > 3:
        return Unknown("nl.arange takes 1 to 3 numbers")
    if len(values) == 1:
        return IndexArray((values[0],), (1,), 0)
    start = values[0]
    if not isinstance(start, int):
        start = size(start)
    span = range(start, *values[1:])
    return IndexArray((len(span),), (span.step,), span.start)


def _loop_reduce(m: Machine, node: ast.AST, bound: dict[str, Any]) -> Value:
    """One tensor_tensor an execution; a tensor_copy in the first iteration of all its loops."""
    value = bound["x"]
    if isinstance(value, Unknown):
        m.unknown(f"nl.loop_reduce: {value.reason}")
        return value
    if not isinstance(value, View):
        m.unknown("nl.loop_reduce of something that is no tile")
        return Unknown("nl.loop_reduce of something that is no tile")
    named = _loop_variables(m, bound["loop_indices"])
    first = 1
    for var in m.loops:
        if var not in named:
            first *= var.trips
        elif var.low != var.first:
            first = 0
    operand = value.operand()
    dtype = as_dtype(bound.get("dtype")) or operand.dtype
    storage = m.new_storage(operand.shape, dtype, Buffer.SBUF, kind="temporary")
    result = View.whole(storage)
    m.fresh[storage.id] = -1
    operator = bound["op"].last if isinstance(bound["op"], Ref) else "add"
    accumulated = result.operand()
    steps: list[tuple[str, dict[str, Any], int]] = []
    if first:
        copy = {"src": operand} if m.dialect is Dialect.LEGACY else {"dst": operand, "src": operand}
        steps.append(("nisa.tensor_copy", copy, first))
    if m.times - first:
        pair = {"data1": accumulated, "data2": operand, "op": operator}
        steps.append(("nisa.tensor_tensor", pair, m.times - first))
    for name, values, times in steps:
        lowered = lower(m.dialect, name, values, m.target)
        m.note(node, lowered, {"src": value}, times=times)
    m.touch(value, written=False)
    return result


def _loop_variables(m: Machine, given: Value) -> set[Any]:
    items = given.items if isinstance(given, ListValue) else given
    names = set()
    for item in items if isinstance(items, tuple | list) else (items,):
        if isinstance(item, Affine) and len(item.terms) == 1:
            names.add(item.terms[0][0])
        elif isinstance(item, int):
            # A loop that is visited one iteration at a time: its variable is a number.
            names.update(v for v in m.loops if v.trips == 1 and v.low == item)
    return names


def call_method(
    m: Machine, node: ast.AST, method: Method, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """``owner.name(...)``."""
    owner = method.owner
    if isinstance(owner, View):
        return _tensor_method(m, node, owner, method.name, args, kwargs)
    if isinstance(owner, ListValue):
        if method.name != "append":
            m.charge(len(owner.items))
        return _list_method(m, owner, method.name, args, kwargs)
    if isinstance(owner, HostArray):
        return host_method(owner, method.name, args, kwargs)
    if isinstance(owner, dict):
        return _dict_method(m, owner, method.name, args, kwargs)
    if isinstance(owner, IndexArray) and method.name == "reshape":
        return Unknown("reshaped index arrays are not analyzed")
    if isinstance(owner, str):
        return text_method(m, owner, method.name, args, kwargs)
    if isinstance(owner, NamedTuple):
        from accelopt_lsp.analysis.libraries import named_tuple_method

        return named_tuple_method(m, owner, method.name, args, kwargs)
    if isinstance(owner, tuple) and method.name in ("index", "count"):
        return _changed_list(m, ListValue(list(owner)), method.name, args, kwargs)
    if isinstance(owner, Unknown):
        return owner
    return Unknown(f"method {method.name} is not analyzed")


def _tensor_method(
    m: Machine,
    node: ast.AST,
    owner: View,
    name: str,
    args: list[Value],
    kwargs: dict[str, Value],
) -> Value:
    given = [*args, *kwargs.values()]
    if name == "reshape":
        return reshape(owner, sizes(tuple(given)))
    if name == "broadcast_to":
        key = "src" if m.dialect is Dialect.LEGACY else "x"
        return call_api(m, node, "nl.broadcast_to", [], {key: owner, "shape": sizes(tuple(given))})
    if name == "astype":
        key = "src" if m.dialect is Dialect.LEGACY else "x"
        return call_api(m, node, "nl.copy", [], {key: owner, "dtype": given[0]})
    if name in ("expand_dims", "expand_dim"):
        return _expand_dim(owner, size(given[0]))
    if name == "assert_shape":
        stated = sizes(tuple(given[:1]))
        if stated != owner.shape:
            raise Rejected(
                "R006", f"shape is {list(owner.shape)}, asserted was {list(stated)}", 0, "shape"
            )
        return owner
    if name == "is_contiguous":
        return owner.operand().contiguous_run() == owner.operand().free
    return _view_method(owner, name, given, args, kwargs)


def _view_method(
    owner: View, name: str, given: list[Value], args: list[Value], kwargs: dict[str, Value]
) -> Value:
    rank = len(owner.shape)
    if name == "permute":
        dims = sizes(tuple(given))
        if sorted(dims) != list(range(rank)):
            raise Rejected("R081", f"permute{dims} does not name every dimension once", 0)
        if owner.on_chip and dims[0] != 0:
            raise Rejected("R081", f"permute{dims} must leave the partition dimension first", 0)
        return evolve(
            owner,
            shape=tuple(owner.shape[d] for d in dims),
            strides=tuple(owner.strides[d] for d in dims),
        )
    if name == "broadcast":
        at, count = _free_dim(owner, name, given[0]), size(given[1])
        return evolve(
            owner,
            shape=(*owner.shape[:at], count, *owner.shape[at + 1 :]),
            strides=(*owner.strides[:at], 0, *owner.strides[at + 1 :]),
        )
    if name == "squeeze_dim":
        at = _free_dim(owner, name, given[0])
        if owner.shape[at] != 1:
            raise Rejected("R081", f"dimension {at} has size {owner.shape[at]}, not 1", 0, "dim")
        return evolve(
            owner,
            shape=(*owner.shape[:at], *owner.shape[at + 1 :]),
            strides=(*owner.strides[:at], *owner.strides[at + 1 :]),
        )
    if name == "reshape_dim":
        at = _free_dim(owner, name, given[0])
        inner = sizes((given[1],))
        return reshape(owner, (*owner.shape[:at], *inner, *owner.shape[at + 1 :]))
    if name == "flatten_dims":
        first, last = _free_dim(owner, name, given[0]), size(given[1]) % rank
        return reshape(owner, (*owner.shape[:first], -1, *owner.shape[last + 1 :]))
    if name in ("slice", "select"):
        full = [slice(None)] * (size(given[0]) % rank)
        if name == "select" and isinstance(given[1], View):
            if owner.on_chip and not full:
                raise Rejected("R083", "the partition dimension cannot be indexed at run time", 0)
        if name == "select" and isinstance(given[1], View | Register):
            return dynamic.select(owner, size(given[0]) % rank, given[1])
        if name == "select":
            return select(owner, (*full, given[1]))
        step = given[3] if len(given) > 3 else None
        return select(owner, (*full, slice(given[1], given[2], step)))
    if name == "ap":
        return _access_pattern(owner, args, kwargs)
    if name in ("view", "reinterpret_cast"):
        dtype = as_dtype(given[0])
        if dtype is None:
            raise Undecided("a view as a type that is not known")
        return dynamic.reinterpret(owner, dtype)
    if name == "vector_select" and isinstance(given[1], View):
        if owner.on_chip or given[0] != 0:
            raise Rejected("R083", "vector_select takes dimension 0 of a tensor in HBM", 0, "dim")
        return dynamic.vector_select(owner, given[1])
    if name == "indirect" and isinstance(given[0], View):
        return dynamic.indirect(owner, given[0], size(given[1]) if len(given) > 1 else None)
    if name == "rearrange":
        fixed = given[2] if len(given) > 2 and given[2] is not None else {}
        if not isinstance(fixed, dict):
            raise Undecided("sizes that are not known")
        sized = {str(k): size(v) for k, v in fixed.items()}
        return reshape(*dynamic.rearrange(owner, given[0], given[1], sized))
    if name == "get_pattern":
        return ListValue(
            [ListValue([s, n]) for s, n in zip(owner.strides, owner.shape, strict=True)]
        )
    if name == "is_indirect":
        return owner.dynamic is not None
    return Unknown(f"tensor.{name} is not analyzed")


def _free_dim(owner: View, name: str, dim: Value) -> int:
    """A dimension that a view method changes: any of HBM, any but the partitions on chip.

    Raises:
        Rejected: there is none of that number, or it is that of the partitions.
    """
    rank, wanted = len(owner.shape), size(dim)
    if not -rank <= wanted < rank:
        raise Rejected("R028", f"dimension {wanted} of a tensor with {rank} dimensions", 0, "dim")
    if wanted % rank == 0 and owner.on_chip:
        raise Rejected(
            "R081", f"{name} cannot touch dimension 0 of a tile, its partitions", 0, "dim"
        )
    return wanted % rank


def _access_pattern(owner: View, args: list[Value], kwargs: dict[str, Value]) -> Value:
    names = ("pattern", "offset", "scalar_offset", "vector_offset", "indirect_dim", "dtype")
    bound = {**dict(zip(names, args, strict=False)), **kwargs}
    pattern, offset = bound.get("pattern"), bound.get("offset")
    dtype = None if bound.get("dtype") is None else as_dtype(bound["dtype"])
    if bound.get("dtype") is not None and dtype is None:
        raise Undecided("a view as a type that is not known")
    items = pattern.items if isinstance(pattern, ListValue) else pattern
    if not isinstance(items, tuple | list) or not isinstance(offset, int | Affine | None):
        raise Undecided("an access pattern that is not known")
    pairs = [sizes((pair,)) for pair in items]
    scalar, vector = bound.get("scalar_offset"), bound.get("vector_offset")
    dim = size(bound.get("indirect_dim") or 0)
    return dynamic.access_pattern(owner, pairs, offset or 0, scalar, vector, dtype, dim)


def _expand_dim(owner: View, dim: int) -> View:
    at = dim + len(owner.shape) + 1 if dim < 0 else dim
    if at == 0 and owner.on_chip:
        raise Rejected("R081", "no dimension can stand before the partitions of a tile", 0, "dim")
    return evolve(
        owner,
        shape=(*owner.shape[:at], 1, *owner.shape[at:]),
        strides=(*owner.strides[:at], 1, *owner.strides[at:]),
    )


def _list_method(
    m: Machine, owner: ListValue, name: str, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    if owner.unordered:
        return set_method(m, owner, name, args)
    if name == "append" and len(args) == 1:
        m.appended.append((owner, len(owner.items)))
        if owner.shadow is not None:
            m.set_items(owner, [*owner.items, args[0]])
        else:
            m.journal.append(owner.items, args[0], owner)
        return None
    if name == "extend" and args:
        more = args[0]
        if not isinstance(more, ListValue | tuple):
            known = None if isinstance(more, Unknown) else items_of(more)
            more = (Unknown("what a list was extended by"),) if known is None else tuple(known)
        extend(m, owner, more)
        if isinstance(more, tuple) and more and isinstance(more[0], Unknown):
            m.unknown(f"a list grows: {more[0].reason}")
        return None
    if name == "clear":
        m.set_items(owner, [])
        return None
    if name in ("pop", "insert", "remove", "reverse", "sort", "index", "count"):
        if flat_length(owner.items) != len(owner.items):
            m.set_items(owner, written_out(owner.items))
        if name in ("index", "count"):
            return _changed_list(m, owner, name, args, kwargs)
        if name == "insert":
            m.alone(owner.loops)
        try:
            return _changed_list(m, owner, name, args, kwargs)
        except (Undecided, ValueError, TypeError, LookupError) as why:
            reason = f"a list changes in a way that is not known: {why}"
            m.unknown(reason)
            m.set_items(owner, [Unknown(reason)])
            raise
    if name == "copy":
        return ListValue(shared_items(m, owner), tuple(m.loops))
    m.set_items(owner, [Unknown(f"list.{name} is not analyzed")])
    return Unknown(f"list.{name} is not analyzed")


def _changed_list(
    m: Machine, owner: ListValue, name: str, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    """Methods of a list whose items are written out."""
    from accelopt_lsp.analysis.comparisons import equal

    items = list(owner.items)
    if name in ("index", "count", "remove"):
        if any(isinstance(item, Unknown | Affine) for item in (*items, args[0])):
            raise Undecided(f"list.{name} among values that are not known")
        same = [n for n, item in enumerate(items) if equal(m, item, args[0])]
        if name == "count":
            return len(same)
        if not same:
            raise Undecided(f"list.{name} of something that the list lacks")
        if name == "index":
            return same[0]
        del items[same[0]]
    elif name == "pop":
        index = args[0] if args else -1
        if not isinstance(index, int):
            raise Undecided("list.pop at an index that is not known")
        value = items.pop(index)
        m.set_items(owner, items)
        return value
    elif name == "insert" and isinstance(args[0], int):
        items.insert(args[0], args[1])
    elif name == "reverse":
        items.reverse()
    elif name == "sort":
        items = sorted_items(m, items, kwargs)
    else:
        items = [Unknown(f"list.{name} is not analyzed")]
    m.set_items(owner, items)
    return None


def sorted_items(m: Machine, items: list[Value], kwargs: dict[str, Value]) -> list[Value]:
    """Items in order, as ``sorted(items, key=..., reverse=...)`` gives them.

    Raises:
        Undecided: their order is not known.
    """
    from accelopt_lsp.analysis.calls import call_value

    if isinstance(kwargs.get("reverse"), Unknown | Affine):
        raise Undecided("the order of these values is not known")
    key = kwargs.get("key")
    place = ast.Pass(lineno=m.line, col_offset=0)
    keys = items if key is None else [call_value(m, place, key, [i], {}, {}) for i in items]
    if not all(_orderable(k) for k in keys):
        raise Undecided("the order of these values is not known")
    order = sorted(range(len(items)), key=lambda n: keys[n], reverse=bool(kwargs.get("reverse")))
    return [items[n] for n in order]


def _orderable(key: Value) -> bool:
    if isinstance(key, tuple):
        return all(_orderable(k) for k in key)
    return isinstance(key, int | float | str)


def extend(m: Machine, owner: ListValue, value: ListValue | tuple[Value, ...]) -> None:
    """``owner.extend(value)``.

    Raises:
        Undecided: the list grows too long.
    """
    items = value.items if isinstance(value, ListValue) else value
    if len(owner.items) + len(items) > MAX_LENGTH:
        raise Undecided("a list too long to analyze")
    m.appended.append((owner, len(owner.items)))
    m.set_items(owner, [*owner.items, *items])


def _dict_method(
    m: Machine, owner: dict[Any, Value], name: str, args: list[Value], kwargs: dict[str, Value]
) -> Value:
    from accelopt_lsp.analysis.expressions import hashable

    if SOME_KEY in owner and name not in ("update", "clear"):
        raise Undecided(SOME_KEY.reason)
    if name == "get" and args:
        key = hashable(args[0])
        m.reads(owner, key)
        return owner.get(key, args[1] if len(args) > 1 else None)
    if name in ("keys", "values", "items", "copy", "pop", "setdefault", "popitem", "clear"):
        for key in owner:
            m.reads(owner, key)
    if name == "keys":
        return tuple(owner)
    if name == "values":
        return tuple(owner.values())
    if name == "items":
        return tuple(owner.items())
    if name == "copy":
        return m.new_dict(owner)
    if name == "update":
        given: dict[Any, Value] = args[0] if args and isinstance(args[0], dict) else {}
        if args and not isinstance(args[0], dict):
            given = _pairs(m, owner, args[0])
        for key, value in {**given, **kwargs}.items():
            m.set_entry(owner, owner, key, value)
        return None
    if name == "setdefault" and args:
        try:
            key = hashable(args[0])
        except Undecided:
            m.set_entry(owner, owner, SOME_KEY, Unknown(SOME_KEY.reason))
            raise
        if key not in owner:
            m.set_entry(owner, owner, key, args[1] if len(args) > 1 else None)
        return owner[key]
    if name == "pop" and args:
        key = hashable(args[0])
        if key not in owner:
            return args[1] if len(args) > 1 else Unknown(f"no key {key!r}")
        value = owner[key]
        m.journal.remove(owner, key, owner)
        return value
    if name == "popitem" and owner:
        key = next(reversed(owner))
        value = owner[key]
        m.journal.remove(owner, key, owner)
        return (key, value)
    if name == "clear":
        for key in list(owner):
            m.journal.remove(owner, key, owner)
        return None
    return Unknown(f"dict.{name} is not analyzed")


def _pairs(m: Machine, owner: dict[Any, Value], given: Value) -> dict[Any, Value]:
    """What ``dict.update`` takes from a sequence of pairs.

    Raises:
        Undecided: that is not known; nothing that the dictionary holds is any more.
    """
    from accelopt_lsp.analysis.expressions import hashable

    pairs = None if isinstance(given, Unknown) else items_of(given)
    found: dict[Any, Value] = {}
    for pair in pairs or ():
        if not isinstance(pair, tuple) or len(pair) != 2:
            pairs = None
            break
        found[hashable(pair[0])] = pair[1]
    if pairs is None:
        reason = "a dictionary changes in a way that is not known"
        m.unknown(reason)
        for key in list(owner):
            m.set_entry(owner, owner, key, Unknown(reason))
        raise Undecided(reason)
    return found
