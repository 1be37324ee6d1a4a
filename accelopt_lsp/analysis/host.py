"""NumPy on the host: only shapes and data types of arrays are followed."""

from __future__ import annotations

import math

from accelopt_lsp.analysis.affine import Undecided
from accelopt_lsp.analysis.machine import Machine
from accelopt_lsp.analysis.references import as_dtype
from accelopt_lsp.analysis.tensors import sizes
from accelopt_lsp.analysis.values import HostArray, ListValue, Ref, Unknown, Value
from accelopt_lsp.nki.dtypes import FLOAT32, DType, get_dtype

_FROM_SHAPE = frozenset("zeros ones empty full random.random random.random_sample".split())
_RANDOM_SHAPES = frozenset("random.rand random.randn".split())
_SIZED = frozenset(
    "random.normal random.uniform random.standard_normal random.randint random.exponential "
    "random.choice".split()
)
_SAME_SHAPE = frozenset(
    "ascontiguousarray asarray array abs absolute exp log sqrt sin cos tanh square negative clip "
    "maximum minimum sign copy tril triu zeros_like ones_like empty_like full_like".split()
)


def call_numpy(m: Machine, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A NumPy call, by its name after ``np.``."""
    dtype = as_dtype(Ref(f"np.{name}"))
    if dtype is not None:
        return args[0] if args else 0
    if name == "dtype":
        return _dtype(args)
    if name == "random.seed":
        return None
    if name in ("random.default_rng", "random.RandomState"):
        return Ref("np.random")
    if name in _FROM_SHAPE:
        return HostArray(sizes((args[0],)), _given_dtype(kwargs, args[1:]))
    if name in _RANDOM_SHAPES:
        return HostArray(sizes(tuple(args)), None)
    if name in _SIZED or name.rpartition(".")[2] in ("integers", "normal"):
        shape = kwargs.get("size", args[2] if len(args) > 2 else ())
        if name.endswith("standard_normal") and args:
            shape = args[0]
        dtype = _given_dtype(kwargs, args[3:])
        if dtype is None and name.rpartition(".")[2] in ("randint", "integers"):
            dtype = get_dtype("int32")
        return HostArray(sizes((shape,)) if shape != () else (), dtype)
    if name in ("identity", "eye"):
        rows = sizes((args[0],))[0]
        columns = sizes((args[1],))[0] if len(args) > 1 and isinstance(args[1], int) else rows
        return HostArray((rows, columns), _given_dtype(kwargs, args[1:]))
    if name == "arange":
        return _arange(args, kwargs)
    if name in _SAME_SHAPE:
        return _same_shape(name, args, kwargs)
    if name in ("reshape", "transpose", "swapaxes", "expand_dims", "broadcast_to"):
        if args and isinstance(args[0], HostArray):
            return host_method(args[0], name, args[1:], kwargs)
    if name == "prod" and args and isinstance(args[0], tuple | ListValue):
        return math.prod(sizes((args[0],)))
    numbers = all(isinstance(a, int | float) for a in args)
    if name in ("sqrt", "exp", "log", "ceil", "floor", "log2") and args and numbers:
        from accelopt_lsp.analysis.builtins import call_math

        return call_math(name, args)
    return Unknown(f"the result of np.{name}")


_TORCH_SHAPES = frozenset("rand randn zeros ones empty".split())


def call_framework(m: Machine, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Calls of torch and jax.numpy that make arrays; sizes may be given one by one."""
    if name in _TORCH_SHAPES and args:
        shape = sizes((args[0],)) if len(args) == 1 else sizes(tuple(args))
        return HostArray(shape, _given_dtype(kwargs, []) or FLOAT32)
    if name == "full" and args:
        return HostArray(sizes((args[0],)), _given_dtype(kwargs, []) or FLOAT32)
    return call_numpy(m, name, args, kwargs)


def _dtype(args: list[Value]) -> Value:
    found = as_dtype(args[0]) if args else None
    return found if found is not None else Unknown("a data type that is not known")


def _given_dtype(kwargs: dict[str, Value], rest: list[Value]) -> DType | None:
    given = as_dtype(kwargs.get("dtype"))
    if given is None:
        given = next((as_dtype(v) for v in rest if as_dtype(v) is not None), None)
    return given


def _same_shape(name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    for value in args:
        if isinstance(value, HostArray):
            return HostArray(value.shape, _given_dtype(kwargs, args[1:]) or value.dtype)
    if name in ("abs", "absolute", "sqrt", "exp") and args and isinstance(args[0], int | float):
        return Unknown("a number", number=True)
    return Unknown(f"the result of np.{name}")


def _arange(args: list[Value], kwargs: dict[str, Value]) -> Value:
    numbers = sizes(tuple(args)) if args else ()
    if not 1 <= len(numbers) <= 3 or (len(numbers) == 3 and numbers[2] == 0):
        raise Undecided("np.arange of something unknown")
    return HostArray((len(range(*numbers)),), _given_dtype(kwargs, []) or get_dtype("int32"))


def host_method(owner: HostArray, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A method of a host array."""
    if name in ("to", "type", "contiguous", "cuda", "cpu", "detach", "clone"):
        given = as_dtype(kwargs.get("dtype")) or next((d for a in args if (d := as_dtype(a))), None)
        return HostArray(owner.shape, given or owner.dtype)
    if name == "astype":
        given = as_dtype(args[0] if args else kwargs.get("dtype"))
        return HostArray(owner.shape, given)
    if name == "reshape":
        shape = sizes(tuple(args))
        known = -math.prod(shape)
        total = math.prod(owner.shape)
        if -1 in shape and known:
            shape = tuple(total // known if n == -1 else n for n in shape)
        if math.prod(shape) != total:
            raise Undecided("a reshape that does not fit")
        return HostArray(shape, owner.dtype)
    if name == "transpose":
        if not args:
            return HostArray(owner.shape[::-1], owner.dtype)
        axes = sizes(tuple(args))
        if sorted(a % len(owner.shape) for a in axes) == list(range(len(owner.shape))):
            return HostArray(tuple(owner.shape[a] for a in axes), owner.dtype)
    if name == "swapaxes" and len(args) == 2:
        first, second = sizes(tuple(args))
        shape_list = list(owner.shape)
        shape_list[first], shape_list[second] = shape_list[second], shape_list[first]
        return HostArray(tuple(shape_list), owner.dtype)
    if name == "expand_dims" and len(args) == 1:
        at = sizes(tuple(args))[0]
        at = at + len(owner.shape) + 1 if at < 0 else at
        return HostArray((*owner.shape[:at], 1, *owner.shape[at:]), owner.dtype)
    if name == "broadcast_to":
        return HostArray(sizes(tuple(args)), owner.dtype)
    if name in ("copy", "clip"):
        return owner
    return Unknown(f"array.{name} is not analyzed")
