"""Arguments of a kernel in the child that runs it: from SPECs, or from the judge's messages."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from accelopt_lsp.nki.arguments import (
    ArgumentSpec,
    DictSpec,
    FileSpec,
    ListSpec,
    NameSpec,
    ObjectSpec,
    TensorSpec,
    TupleSpec,
)
from accelopt_lsp.nki.dtypes import find_dtype, get_dtype
from accelopt_lsp.profiler.simulator.elements import ELEMENTS, as_dtype, to_carrier
from accelopt_lsp.profiler.simulator.errors import ArgumentFault
from accelopt_lsp.profiler.simulator.following import MAX_ELEMENTS
from accelopt_lsp.profiler.simulator.kernels import TensorInput
from accelopt_lsp.profiler.simulator.structures import Construction


def from_spec(spec: ArgumentSpec, module: ModuleType, folder: Path) -> Any:
    """What a SPEC describes, tensors by their shapes.

    Args:
        module: the kernel's, in which names are looked up first.
        folder: of the kernel's file, which paths start from.

    Raises:
        ArgumentFault: a file or a name does not exist.
    """
    if isinstance(spec, TensorSpec):
        return _tensor(spec)
    if isinstance(spec, FileSpec):
        return _from_file(folder / spec.path)
    if isinstance(spec, NameSpec):
        return resolve(spec.name, module)
    if isinstance(spec, TupleSpec):
        return tuple(from_spec(s, module, folder) for s in spec.items)
    if isinstance(spec, ListSpec):
        return [from_spec(s, module, folder) for s in spec.items]
    if isinstance(spec, DictSpec):
        return {key.value: from_spec(s, module, folder) for key, s in spec.items}
    if isinstance(spec, ObjectSpec):
        args = tuple(from_spec(s, module, folder) for s in spec.args)
        fields = {name: from_spec(s, module, folder) for name, s in spec.fields}
        return _construction(spec.name, module, args, fields)
    return spec.value


def _tensor(spec: TensorSpec) -> TensorInput:
    """A tensor by its shape, and by its values where all are the same and few."""
    value = spec.distribution.constant
    if value is None or math.prod(spec.shape) > MAX_ELEMENTS:
        return TensorInput(spec.shape, spec.dtype)
    values = to_carrier(np.full(spec.shape, value, dtype=np.float32), spec.dtype)
    return TensorInput(spec.shape, spec.dtype, values)


def decoded(value: Any, module: ModuleType, scratch: Path) -> Any:
    """What the judge's message describes.

    Args:
        scratch: folder in which it left the tensors' values.

    Raises:
        ArgumentFault: a name does not exist.
    """
    if "literal" in value:
        return value["literal"]
    if "call" in value:
        args = tuple(decoded(v, module, scratch) for v in value["args"])
        fields = {name: decoded(v, module, scratch) for name, v in value["fields"]}
        return _construction(value["call"], module, args, fields)
    if "name" in value:
        return resolve(value["name"], module)
    if "items" in value:
        return tuple(decoded(v, module, scratch) for v in value["items"])
    if "list" in value:
        return [decoded(v, module, scratch) for v in value["list"]]
    if "entries" in value:
        return {key: decoded(v, module, scratch) for key, v in value["entries"]}
    shape = tuple(value["shape"])
    element = get_dtype(value["dtype"])
    if "file" not in value:
        return TensorInput(shape, element)
    # Copy on write: a kernel may write to its inputs without changing the file.
    return TensorInput(shape, element, np.load(scratch / value["file"], mmap_mode="c"))


def _construction(
    name: str, module: ModuleType, args: tuple[Any, ...], fields: dict[str, Any]
) -> Construction:
    make = resolve(name, module)
    if not callable(make):
        raise ArgumentFault(f"{name}(...): {name} is no class or function, but {make!r}")
    return Construction(name, make, args, fields)


def _from_file(path: Path) -> TensorInput:
    """A tensor in a file: its values too, if control flow may depend on something so small.

    Raises:
        ArgumentFault: the file cannot be read, or NKI has no such data type.
    """
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ArgumentFault(f"cannot read {path}: {error}") from None
    element = as_dtype(values.dtype)
    if element is None:
        raise ArgumentFault(f"{path} holds {values.dtype}, which NKI lacks")
    if values.size > MAX_ELEMENTS:
        return TensorInput(values.shape, element)
    return TensorInput(values.shape, element, to_carrier(values, element))


def resolve(name: str, module: ModuleType) -> Any:
    """A dotted name: a data type, something of the kernel's file, or of an importable module.

    Raises:
        ArgumentFault: there is no such thing.
    """
    found = find_dtype(name)
    if found is not None:
        return ELEMENTS[found]
    head, *rest = name.split(".")
    own = vars(module).get(head)
    if own is not None:
        value, missing = _attribute(own, rest)
        if not missing:
            return value
    place, rest = _imported(name)
    if place is not None:
        value, missing = _attribute(place, rest)
        if not missing:
            return value
        raise ArgumentFault(f"{name}: {place.__name__} has no {missing!r}")
    if own is not None:
        raise ArgumentFault(f"{name}: {head} has no {missing!r}")
    raise ArgumentFault(
        f"{name} is no name of the kernel's file, and there is no module {head}; write the "
        "name as the kernel's file knows it, or with the path of its module in front"
    )


def _attribute(value: Any, parts: list[str]) -> tuple[Any, str]:
    """``value.a.b``, or the first part that does not exist."""
    for part in parts:
        if not hasattr(value, part):
            return None, part
        value = getattr(value, part)
    return value, ""


def _imported(name: str) -> tuple[ModuleType | None, list[str]]:
    """The longest module path that a dotted name begins with, and what follows.

    A package may have a name like that of a module in it: the module counts.
    """
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            return importlib.import_module(".".join(parts[:count])), parts[count:]
        except ImportError:
            continue
    return None, parts
