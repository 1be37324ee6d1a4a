"""``nl.NKIObject``: the base of classes that kernels of the current dialect may use."""

from __future__ import annotations

from typing import Any, ClassVar, get_origin


class NKIObject:
    """A class of plain data, whose initializer follows its annotations.

    As documented (NKI language guide, Class Support): unless the class defines its own, the
    initializer takes the annotated names in order, fills the rest with their defaults or None,
    and calls ``__post_init__``.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        names = _fields(type(self))
        if len(args) > len(names):
            raise TypeError(
                f"{type(self).__name__} takes {len(names)} values, {len(args)} were given"
            )
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name in given:
                raise TypeError(f"{type(self).__name__} got two values for {name!r}")
            given[name] = value
        for name in names:
            default = getattr(type(self), name, None)
            setattr(self, name, given.pop(name, default))
        for name, value in given.items():
            setattr(self, name, value)
        self.__post_init__()

    def __post_init__(self) -> None:
        """For subclasses: called when all attributes are set."""


def _fields(owner: type) -> list[str]:
    """Annotated names of a class and its bases, bases first."""
    names: dict[str, None] = {}
    for cls in reversed(owner.__mro__):
        for name, kind in vars(cls).get("__annotations__", {}).items():
            text = kind if isinstance(kind, str) else ""
            if get_origin(kind) is not ClassVar and not text.startswith("ClassVar"):
                names[name] = None
    return list(names)
