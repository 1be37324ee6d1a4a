"""Arguments and results that hold tensors: tuples, lists, dictionaries and plain objects."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

from attrs import frozen

from accelopt_lsp.profiler.simulator.objects import NKIObject


@frozen(slots=True)
class Construction:
    """An object that is made when its tensors have their place: a call yet to be done.

    Attributes:
        name: as the user calls it.
        make: class or function.
        args, fields: positional and named arguments, which may hold tensors.
    """

    name: str
    make: Callable[..., Any]
    args: tuple[Any, ...]
    fields: dict[str, Any]


Leaf = Callable[[Any, str], Any]


def transform(value: Any, leaf: Leaf, name: str = "") -> Any:
    """The same structure with every leaf replaced.

    A :class:`Construction` is done, with its arguments' leaves replaced. Objects are copied if
    one of their attributes changes; whoever made them keeps his own.

    Args:
        leaf: gives the new leaf, from the old one and its name.
        name: of the whole; parts are called ``name[0]``, ``name['key']``, ``name.attribute``.
    """
    if type(value) is Construction:
        given = [transform(v, leaf, f"{name}[{i}]") for i, v in enumerate(value.args)]
        named = {k: transform(v, leaf, f"{name}.{k}") for k, v in value.fields.items()}
        return value.make(*given, **named)
    if isinstance(value, tuple | list):
        parts = [transform(v, leaf, f"{name}[{i}]") for i, v in enumerate(value)]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*parts)
        return type(value)(parts) if type(value) in (tuple, list) else value
    if type(value) is dict:
        return {k: transform(v, leaf, f"{name}[{k!r}]") for k, v in value.items()}
    if _is_record(value):
        return _transform_record(value, leaf, name)
    return leaf(value, name)


def _is_record(value: Any) -> bool:
    if isinstance(value, type | Enum):
        return False
    return dataclasses.is_dataclass(value) or isinstance(value, NKIObject)


def _transform_record(value: Any, leaf: Leaf, name: str) -> Any:
    old = getattr(value, "__dict__", {})
    new = {k: transform(v, leaf, f"{name}.{k}") for k, v in old.items()}
    if all(new[k] is old[k] for k in old):
        return value
    made = copy.copy(value)
    made.__dict__.update(new)
    return made


def leaves(value: Any) -> Iterator[Any]:
    """Leaves of a structure, in the order in which :func:`transform` visits them."""
    if isinstance(value, tuple | list):
        for part in value:
            yield from leaves(part)
    elif type(value) is dict:
        for part in value.values():
            yield from leaves(part)
    elif type(value) is Construction:
        for part in (*value.args, *value.fields.values()):
            yield from leaves(part)
    elif _is_record(value):
        for part in getattr(value, "__dict__", {}).values():
            yield from leaves(part)
    else:
        yield value
