"""``nki.typing``: annotations such as ``nt.tensor[128, 512]``."""

from __future__ import annotations

from enum import EnumType
from typing import Any

from attrs import frozen


@frozen(slots=True)
class TensorAnnotation:
    """``nt.tensor[shape]`` or ``nt.tensor[shape, dtype]``; also stands for an input in scripts.

    Attributes:
        shape: sizes, or None where the annotation gives none.
        dtype: data type as written, or None.
        mutable: the kernel may write to it (``nt.mutable_tensor``).
    """

    shape: tuple[int, ...] | None = None
    dtype: Any = None
    mutable: bool = False

    def __getitem__(self, key: Any) -> TensorAnnotation:
        parts = key if isinstance(key, tuple) else (key,)
        if parts and isinstance(parts[0], tuple | list):
            dtype = parts[1] if len(parts) > 1 else None
            return TensorAnnotation(tuple(int(n) for n in parts[0]), dtype, self.mutable)
        shape = tuple(int(n) for n in parts if isinstance(n, int))
        return TensorAnnotation(shape, mutable=self.mutable)


def constants_of(isa: dict[str, Any]) -> dict[str, Any]:
    """``nki.isa.constants``: the enumerations of ``nki.isa``."""
    return {name: value for name, value in isa.items() if isinstance(value, EnumType)}


def legacy_typing() -> dict[str, Any]:
    return {"tensor": TensorAnnotation(), "mutable_tensor": TensorAnnotation(mutable=True)}


def current_typing() -> dict[str, Any]:
    return {"tensor": TensorAnnotation()}
