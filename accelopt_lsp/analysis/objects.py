"""Functions, classes and objects of analyzed code."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from accelopt_lsp.analysis.affine import Var

if TYPE_CHECKING:
    from accelopt_lsp.analysis.scope import Scope

Value = Any


@define(slots=True, eq=False)
class Function:
    """A function or lambda of the file, with the scope it closes over.

    ``cached``: ``lru_cache`` gives the first result again for arguments that were given before.
    """

    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scope: Scope
    owner: ClassValue | None = field(default=None, kw_only=True)
    defaults: list[Value] = field(factory=list)
    keyword_defaults: dict[str, Value] = field(factory=dict)
    cached: bool = False


@frozen(slots=True, eq=False)
class Bound:
    """A function with its first arguments: a method of an object, or a ``partial``."""

    function: Value
    args: tuple[Value, ...] = ()
    kwargs: Mapping[str, Value] = field(factory=dict)


@frozen(slots=True, eq=False)
class Descriptor:
    """What a decorator made of a function of a class body.

    ``kind``: ``static``, ``class``, ``cached`` or ``property`` (with its setter, if any).
    """

    kind: str
    function: Value
    setter: Value = None


@frozen(slots=True, eq=False)
class Super:
    """``super()``: members of the class that a method's class inherits from."""

    cls: ClassValue | None
    instance: Value


@define(slots=True, eq=False)
class ClassValue:
    """A class.

    Attributes:
        name: as written.
        node: its definition; None for a named tuple that a call made.
        scope: names around it.
        kind: ``plain``, ``dataclass``, ``enum`` or ``namedtuple``.
        base: the class of a checkout that it inherits from.
        fields: of a dataclass or named tuple, in order.
        frozen: fields cannot be set again.
        lenient: a class of NKI's objects: fields that are not given are None.
        mixin: what members of an enumeration are besides: ``int`` or ``str``.
        problem: why its objects cannot be known.
        members: what its body defines; None before that was evaluated.
        roster: members of an enumeration by name, without aliases.
        by_identity: a dataclass whose objects equal nothing but themselves.
        ordered: a dataclass whose objects are ordered as their fields are.
        equals: objects that stand as keys for all that equal them, by their fields.
    """

    name: str
    node: ast.ClassDef | None
    scope: Scope
    kind: str = "plain"
    base: ClassValue | None = None
    fields: list[Field] = field(factory=list)
    frozen: bool = False
    lenient: bool = False
    mixin: str = ""
    problem: str = ""
    members: dict[str, Value] | None = None
    roster: dict[str, Value] = field(factory=dict)
    by_identity: bool = False
    ordered: bool = False
    equals: dict[Any, Instance] = field(factory=dict)

    def lineage(self) -> Iterator[ClassValue]:
        """The class and those that it inherits from."""
        cls: ClassValue | None = self
        while cls is not None:
            yield cls
            cls = cls.base


@frozen(slots=True, eq=False)
class Field:
    """A field of a dataclass or named tuple.

    Attributes:
        name: of the field.
        default: its value where none is given; :data:`MISSING` if one must be.
        factory: what makes the default, or :data:`MISSING`.
        init: whether it is a parameter.
        keyword: whether it is a keyword-only parameter.
        compare: whether it counts where objects are compared.
    """

    name: str
    default: Value
    factory: Value
    init: bool = True
    keyword: bool = False
    compare: bool = True


@frozen(slots=True, eq=False)
class FieldSpec:
    """``dataclasses.field(...)`` in a class body."""

    default: Value
    factory: Value
    init: bool = True
    keyword: bool = False
    compare: bool = True


MISSING: Any = object()
"""No default."""


class NamedTuple(tuple[Value, ...]):
    """A named tuple: a tuple that knows its class."""

    cls: ClassValue

    @classmethod
    def of(cls, owner: ClassValue, items: Iterable[Value]) -> NamedTuple:
        found = cls(items)
        found.cls = owner
        return found


class EnumInt(int):
    """A member of an ``IntEnum``."""

    cls: ClassValue
    label: str


class EnumStr(str):
    """A member of a ``StrEnum``."""

    cls: ClassValue
    label: str


def like_tuple(model: tuple[Value, ...], items: tuple[Value, ...]) -> tuple[Value, ...]:
    """Items as a tuple of the same kind."""
    return NamedTuple.of(model.cls, items) if isinstance(model, NamedTuple) else items


@define(slots=True, eq=False)
class Instance:
    """An object of a class of the file; ``loops`` and ``shadow`` as in :class:`ListValue`."""

    cls: ClassValue
    fields: dict[str, Value] = field(factory=dict)
    loops: tuple[Var, ...] = ()
    shadow: Instance | None = None
    holder: Any = None
