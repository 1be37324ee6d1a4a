"""Arrays of NumPy, PyTorch and JAX as arguments and results of kernels.

No framework is imported here that the script itself has not imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import ml_dtypes
import numpy as np

from accelopt_lsp.profiler.simulator.elements import Array

_NARROW = {"bfloat16": ml_dtypes.bfloat16, "float8_e4m3fn": ml_dtypes.float8_e4m3fn}
_NARROW["float8_e5m2"] = ml_dtypes.float8_e5m2
"""Types that PyTorch and NumPy exchange by their bits only."""


def is_array(value: Any) -> bool:
    """Whether a value is an array of one of the frameworks."""
    if isinstance(value, np.ndarray) or is_torch(value):
        return True
    if isinstance(value, type):
        # np.float16 itself, a data type.
        return False
    return hasattr(value, "__array__") and hasattr(value, "shape") and hasattr(value, "dtype")


def is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _is_jax(value: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


def to_numpy(value: Any) -> Array:
    """Values of an array; of PyTorch's on the CPU, without its gradient."""
    if not is_torch(value):
        return np.asarray(value)
    torch = sys.modules["torch"]
    tensor = value.detach().cpu().contiguous()
    narrow = _NARROW.get(str(tensor.dtype).rpartition(".")[2])
    if narrow is None:
        return np.asarray(tensor.numpy())
    bits = torch.int16 if tensor.element_size() == 2 else torch.uint8
    return np.asarray(tensor.view(bits).numpy()).view(narrow)


def _to_torch(array: Array) -> Any:
    torch = sys.modules["torch"]
    narrow = next((n for n, d in _NARROW.items() if array.dtype == d), None)
    if narrow is None:
        return torch.from_numpy(np.array(array))
    bits = np.int16 if array.itemsize == 2 else np.uint8
    return torch.from_numpy(np.array(array).view(bits)).view(getattr(torch, narrow))


def _to_jax(array: Array) -> Any:
    return sys.modules["jax"].numpy.asarray(array)


def converter_for(arguments: Iterable[Any]) -> Callable[[Array], Any]:
    """What makes results of the arguments' kind: PyTorch's, JAX's, else NumPy's."""
    for value in arguments:
        if is_torch(value):
            return _to_torch
        if _is_jax(value):
            return _to_jax
    return lambda array: array


def write_back(value: Any, array: Array) -> None:
    """Put what a kernel wrote to an argument into the caller's array, if that can be changed."""
    if isinstance(value, np.ndarray):
        if value.flags.writeable:
            if value.dtype.names:
                # An element with fields, which assigning a number would fill one by one.
                array = np.ascontiguousarray(array).view(value.dtype)
            value[...] = array.reshape(value.shape)
    elif is_torch(value):
        value.detach().copy_(_to_torch(array).reshape(value.shape))
