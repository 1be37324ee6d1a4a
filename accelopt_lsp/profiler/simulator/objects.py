"""``nl.NKIObject``: the base of classes that kernels of the current dialect may use."""

from __future__ import annotations

from typing import Any, ClassVar, get_origin


class NKIObject:
    """A class of plain data, whose initializer follows its annotations.

    As documented (NKI language guide, Class Support): unless the class defines its own, the
    initializer takes the declared names in order, fills the rest with their defaults or None, and
    calls ``__post_init__``. ``@dataclass`` above a class changes nothing of that.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        names = dict(vars(cls).get("__annotations__", {}))
        for name, value in list(vars(cls).items()):
            if name not in names and _is_data(name, value):
                names[name] = Any
        for name, kind in names.items():
            if not _is_class_variable(kind) and name not in vars(cls):
                setattr(cls, name, None)
        cls.__annotations__ = names

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
    """Declared names of a class and its bases, bases first."""
    names: dict[str, None] = {}
    for cls in reversed(owner.__mro__):
        for name, kind in vars(cls).get("__annotations__", {}).items():
            if not _is_class_variable(kind):
                names[name] = None
    return list(names)


def _is_class_variable(kind: Any) -> bool:
    text = kind if isinstance(kind, str) else ""
    return get_origin(kind) is ClassVar or kind is ClassVar or text.startswith("ClassVar")


def _is_data(name: str, value: Any) -> bool:
    """A class attribute without annotation that holds a default, not a method."""
    if name.startswith("__") or isinstance(value, list | dict | set):
        return False
    return not callable(value) and not hasattr(value, "__get__")
