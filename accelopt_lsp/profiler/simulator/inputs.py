"""Inputs of a kernel: generated from SPECs, or made by a reference file's ``get_inputs``."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from attrs import define, frozen

from accelopt_lsp.nki.arguments import (
    ArgumentSpec,
    DictSpec,
    Distribution,
    FileSpec,
    ListSpec,
    LiteralSpec,
    ObjectSpec,
    SpecError,
    TensorSpec,
    TupleSpec,
    parse_spec,
)
from accelopt_lsp.nki.dtypes import DType, Kind
from accelopt_lsp.profiler.simulator.elements import Array, as_dtype, from_carrier, to_carrier
from accelopt_lsp.profiler.simulator.errors import ArgumentFault, ReferenceFault
from accelopt_lsp.profiler.simulator.signature import Parameter


@frozen(slots=True, eq=False)
class TensorValue:
    """A tensor with values.

    Attributes:
        carrier: its values, in its shape.
        element: data type.
    """

    carrier: Array
    element: DType


@frozen(slots=True, eq=False)
class ObjectValue:
    """An object of the kernel's project, which only the kernel's process can make.

    Attributes:
        name: class or function that makes it.
        args, fields: positional and named arguments.
    """

    name: str
    args: tuple[Any, ...]
    fields: dict[str, Any]


def generate(spec: ArgumentSpec, generator: np.random.Generator, folder: Path) -> Any:
    """The value that a SPEC describes.

    Raises:
        ArgumentFault: a file cannot be read.
    """
    if isinstance(spec, TensorSpec):
        values = _fill(spec, generator)
        return TensorValue(to_carrier(values, spec.dtype), spec.dtype)
    if isinstance(spec, FileSpec):
        return _from_file(folder / spec.path)
    if isinstance(spec, LiteralSpec):
        return spec.value
    if isinstance(spec, TupleSpec):
        return tuple(generate(item, generator, folder) for item in spec.items)
    if isinstance(spec, ListSpec):
        return [generate(item, generator, folder) for item in spec.items]
    if isinstance(spec, DictSpec):
        return {key.value: generate(item, generator, folder) for key, item in spec.items}
    if isinstance(spec, ObjectSpec):
        args = tuple(generate(item, generator, folder) for item in spec.args)
        fields = {name: generate(item, generator, folder) for name, item in spec.fields}
        return ObjectValue(spec.name, args, fields)
    return spec


def _fill(spec: TensorSpec, generator: np.random.Generator) -> Array:
    kind, distribution = spec.dtype.kind, spec.distribution
    if distribution.kind == "ones":
        return np.ones(spec.shape, dtype=np.float32)
    if distribution.kind == "zeros":
        return np.zeros(spec.shape, dtype=np.float32)
    if distribution.kind == "uniform":
        return generator.random(spec.shape, dtype=np.float32)
    if kind in (Kind.SIGNED, Kind.UNSIGNED) and distribution == Distribution():
        low = -8 if kind is Kind.SIGNED else 0
        return generator.integers(low, 8, spec.shape)
    values = generator.standard_normal(spec.shape, dtype=np.float32)
    if distribution != Distribution():
        values = values * np.float32(distribution.deviation) + np.float32(distribution.mean)
    if kind is Kind.BOOL:
        return values > 0
    return np.abs(values) if kind is Kind.UNSIGNED else values


def _from_file(path: Path) -> TensorValue:
    try:
        values = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ArgumentFault(f"cannot read {path}: {error}") from None
    return tensor_value(values)


def tensor_value(values: Any) -> TensorValue:
    """An array with its data type.

    Raises:
        ArgumentFault: no kernel can take such an array.
    """
    array = np.asarray(values)
    element = as_dtype(array.dtype)
    if element is None:
        raise ArgumentFault(f"an array of type {array.dtype} cannot be a kernel's argument")
    return TensorValue(to_carrier(array, element), element)


@define(slots=True)
class Reference:
    """A reference file: ``forward``, and optionally how inputs come and outputs go."""

    module: ModuleType
    path: Path

    @property
    def rtol(self) -> float | None:
        found = getattr(self.module, "rtol", None)
        return None if found is None else float(found)

    def has(self, name: str) -> bool:
        return callable(getattr(self.module, name, None))

    def call(self, name: str, *args: Any) -> Any:
        """One of its functions.

        Raises:
            ReferenceFault: it failed.
        """
        try:
            return getattr(self.module, name)(*args)
        except Exception as error:
            raise ReferenceFault(
                f"{name} of {self.path.name} failed: {type(error).__name__}: {error}"
            ) from error


def load_reference(path: Path) -> Reference:
    """Import a reference file.

    Raises:
        ReferenceFault: it cannot be imported, or has no ``forward``.
    """
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(f"{path.stem}__reference", path)
    if spec is None or spec.loader is None:
        raise ReferenceFault(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise ReferenceFault(f"{path.name}, line {error.lineno}: {error.msg}") from None
    except Exception as error:
        raise ReferenceFault(
            f"{path.name} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    reference = Reference(module, path)
    if not reference.has("forward"):
        raise ReferenceFault(f"{path.name} has no function forward")
    return reference


@define(slots=True)
class Prepared:
    """Inputs of one run.

    Attributes:
        arguments: kernel parameter to value.
        forward: arguments of the reference's ``forward``; empty without one.
    """

    arguments: dict[str, Any]
    forward: list[Any]


def prepare(
    parameters: tuple[Parameter, ...],
    specs: Mapping[str, str],
    explicit: frozenset[str],
    reference: Reference | None,
    seed: int,
    folder: Path,
    scaling: tuple[float, float] | None = None,
) -> Prepared:
    """Inputs for one seed.

    SPECs that were given explicitly win over the reference's ``get_inputs`` (see
    :func:`_override`); all others only fill in what it does not give.

    Args:
        scaling: scale and shift of the inputs, see :func:`rescaled`.

    Raises:
        ArgumentFault: a parameter stays without a value, or shapes contradict each other.
        ReferenceFault: the reference failed.
    """
    generator = np.random.default_rng(seed)
    try:
        parsed = {name: parse_spec(text) for name, text in specs.items()}
    except SpecError as error:
        raise ArgumentFault(str(error)) from None
    known = {p.name for p in parameters}
    values = {
        name: generate(spec, generator, folder) for name, spec in parsed.items() if name in known
    }
    if reference is None or not reference.has("get_inputs"):
        ordered = rescaled(_in_order(parameters, values), scaling)
        return Prepared(ordered, _forward_arguments(reference, ordered))
    np.random.seed(seed % (1 << 32))
    raw = reference.call("get_inputs")
    raw = list(raw) if isinstance(raw, list | tuple) else [raw]
    names = [p.name for p in parameters]
    raw = _override(raw, names, values, parsed, explicit, reference)
    raw = rescaled(raw, scaling)
    given = raw
    if reference.has("transform_to_nki_inputs"):
        plain = [_as_array(v) for v in raw]
        given = reference.call("transform_to_nki_inputs", plain)
        given = list(given) if isinstance(given, list | tuple) else [given]
    if len(given) > len(names):
        raise ArgumentFault(
            f"{reference.path.name} gives {len(given)} inputs, the kernel takes {len(names)}"
        )
    arguments = {n: _as_value(v) for n, v in zip(names, given, strict=False)}
    for name in names:
        if name in values and (name not in arguments or _scalar_override(name, values, explicit)):
            arguments[name] = rescaled(values[name], scaling)
    _check(arguments, values, explicit, reference)
    return Prepared(_in_order(parameters, arguments), [_upcast(v) for v in raw])


def rescaled(value: Any, scaling: tuple[float, float] | None) -> Any:
    """Inputs of another scale, as :class:`~accelopt_lsp.profiler.base.Rescaling` says.

    What cannot be scaled sensibly stays: integers, booleans, scalars, and tensors of two values,
    which are masks, one-hot rows or identities. Infinities stay where they are.
    """
    if scaling is None:
        return value
    if isinstance(value, tuple | list):
        return type(value)(rescaled(item, scaling) for item in value)
    if isinstance(value, dict):
        return {key: rescaled(item, scaling) for key, item in value.items()}
    if isinstance(value, ObjectValue):
        return ObjectValue(
            value.name,
            tuple(rescaled(item, scaling) for item in value.args),
            rescaled(value.fields, scaling),
        )
    if isinstance(value, TensorValue):
        if not value.element.is_float:
            return value
        changed = _rescaled_array(value.carrier.astype(np.float32), *scaling)
        return TensorValue(to_carrier(changed, value.element), value.element)
    if isinstance(value, np.ndarray) and value.ndim:
        element = as_dtype(value.dtype)
        if element is None or not element.is_float:
            return value
        return _rescaled_array(value.astype(np.float32), *scaling).astype(value.dtype)
    return value


def _rescaled_array(values: Array, scale: float, shift: float) -> Array:
    finite = np.isfinite(values)
    if not finite.any():
        return values
    known = values[finite]
    low, high = known.min(), known.max()
    if low != high and bool(((known == low) | (known == high)).all()):
        return values
    rms = float(np.sqrt(np.mean(np.square(known, dtype=np.float64)))) or 1.0
    return np.where(finite, (values + np.float32(shift * rms)) * np.float32(scale), values)


def _scalar_override(name: str, values: Mapping[str, Any], explicit: frozenset[str]) -> bool:
    return name in explicit and not isinstance(values[name], TensorValue)


def _override(
    raw: list[Any],
    names: list[str],
    values: Mapping[str, Any],
    specs: Mapping[str, ArgumentSpec],
    explicit: frozenset[str],
    reference: Reference,
) -> list[Any]:
    """Put explicit values in the place of the reference's inputs.

    A tensor SPEC that only names a shape and a type says what the kernel takes, as a directive
    does for static analysis: it takes the place of the reference's tensor only where that has
    other sizes, and with a transformation in between not even then (see :func:`_check`).
    """
    result = list(raw)
    transformed = reference.has("transform_to_nki_inputs")
    for position, name in enumerate(names):
        value, spec = values.get(name), specs.get(name)
        if name not in explicit or position >= len(raw):
            continue
        if not isinstance(value, TensorValue):
            if not isinstance(raw[position], np.ndarray):
                result[position] = value
        elif not (isinstance(spec, TensorSpec) and spec.distribution == Distribution()) or (
            not transformed and not _alike(value, _as_value(raw[position]))
        ):
            result[position] = value
    return result


def _alike(first: Any, second: Any) -> bool:
    """Whether two values are tensors of one shape and type."""
    return (
        isinstance(first, TensorValue)
        and isinstance(second, TensorValue)
        and first.carrier.shape == second.carrier.shape
        and first.element == second.element
    )


def _check(
    arguments: Mapping[str, Any],
    values: Mapping[str, Any],
    explicit: frozenset[str],
    reference: Reference,
) -> None:
    """Compare what the reference makes with the SPECs.

    Raises:
        ArgumentFault: a tensor has another shape or type than its SPEC.
    """
    for name in explicit & set(arguments) & set(values):
        made, wanted = arguments[name], values[name]
        if isinstance(made, TensorValue) and isinstance(wanted, TensorValue):
            if not _alike(made, wanted):
                raise ArgumentFault(
                    f"{name} is given as {_describe(wanted)}, {reference.path.name} makes "
                    f"{_describe(made)} of it; give that or leave it out"
                )


def _describe(value: TensorValue) -> str:
    return f"{value.element.short}[{','.join(map(str, value.carrier.shape))}]"


def _as_array(value: Any) -> Any:
    """What a reference's functions see: plain arrays, in their own type."""
    if isinstance(value, TensorValue):
        return from_carrier(value.carrier, value.element)
    return value


def _as_value(value: Any) -> Any:
    if isinstance(value, TensorValue):
        return value
    if isinstance(value, np.ndarray) and value.ndim:
        return tensor_value(value)
    if isinstance(value, np.ndarray | np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return tuple(_as_value(v) for v in value)
    return value


def _upcast(value: Any) -> Any:
    """Inputs of ``forward``: values as the kernel sees them, 16- and 8-bit floats in float32.

    In the place of an object of the kernel's project comes one with the same named attributes.
    """
    if isinstance(value, np.ndarray) and value.ndim:
        value = tensor_value(value)
    if isinstance(value, TensorValue):
        if value.element.kind is Kind.BOOL:
            return value.carrier.astype(bool)
        return value.carrier
    if isinstance(value, tuple | list):
        return type(value)(_upcast(v) for v in value)
    if isinstance(value, dict):
        return {key: _upcast(v) for key, v in value.items()}
    if isinstance(value, ObjectValue):
        return SimpleNamespace(**{name: _upcast(v) for name, v in value.fields.items()})
    return value


def _in_order(parameters: tuple[Parameter, ...], values: Mapping[str, Any]) -> dict[str, Any]:
    missing = [p.name for p in parameters if p.required and p.name not in values]
    if missing:
        raise ArgumentFault(
            f"no value for {', '.join(missing)}; give one with --arg NAME=SPEC, a directive "
            "comment or a reference file"
        )
    return {p.name: values[p.name] for p in parameters if p.name in values}


def _forward_arguments(reference: Reference | None, arguments: Mapping[str, Any]) -> list[Any]:
    """Arguments of ``forward`` where the reference makes no inputs: by name, else in order."""
    if reference is None:
        return []
    try:
        wanted = list(inspect.signature(reference.module.forward).parameters.values())
    except (TypeError, ValueError):
        return [_upcast(v) for v in arguments.values()]
    names = [p.name for p in wanted]
    if all(n in arguments or p.default is not p.empty for n, p in zip(names, wanted, strict=True)):
        return [_upcast(arguments[n]) for n in names if n in arguments]
    return [_upcast(v) for v in list(arguments.values())[: len(names)]]
