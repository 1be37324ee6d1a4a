"""Classes of a checkout: what their bodies define, how objects are made, what attributes are.

Dataclasses, named tuples, enumerations, properties, static and class methods, and inheritance
from one class at a time. A class that needs more says why its objects are not known.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelopt_lsp.analysis.affine import Undecided
from accelopt_lsp.analysis.enums import find_member, make_members
from accelopt_lsp.analysis.machine import KernelRaises, Machine, attributes
from accelopt_lsp.analysis.repeated import is_clean, repeated
from accelopt_lsp.analysis.scope import UNBOUND
from accelopt_lsp.analysis.values import (
    MISSING,
    Bound,
    ClassValue,
    Descriptor,
    EnumInt,
    EnumStr,
    Field,
    FieldSpec,
    Function,
    Instance,
    ListValue,
    Method,
    ModuleValue,
    NamedTuple,
    Ref,
    Super,
    Unknown,
    Value,
)

_OBJECTS = frozenset({"nl.NKIObject", "nki.NKIObject"})
"""NKI's own base: its initializer follows the declared names; what is not given is None."""
_NEUTRAL = frozenset(
    "builtins.object abc.ABC typing.Generic typing.Protocol typing_extensions.Protocol".split()
)
"""Bases that add nothing that analysis follows."""
_ENUMS = {"enum.Enum": "", "enum.IntEnum": "int", "enum.StrEnum": "str"}
_NEUTRAL_DECORATORS = frozenset(
    "enum.unique functools.total_ordering typing.final typing.runtime_checkable "
    "typing_extensions.final".split()
)
GENERATED_INIT = Ref("builtins.__init__")
"""``__init__`` of a class that does not write one; its first argument is the class."""


_HOOKS = ("__new__", "__setattr__", "__getattribute__", "__init_subclass__", "__set_name__")
"""Methods that Python calls behind what is written: classes with them are not followed."""


def define_class(m: Machine, node: ast.ClassDef) -> ClassValue:
    """The class that a definition makes."""
    cls = ClassValue(node.name, node, m.scope)
    for base in node.bases:
        _inherit(m, cls, base)
    if any(k.arg == "metaclass" for k in node.keywords):
        metaclass = m.eval(next(k.value for k in node.keywords if k.arg == "metaclass"))
        if metaclass != Ref("abc.ABCMeta"):
            cls.problem = f"class {cls.name} has a metaclass"
    if cls.base is not None:
        cls.mixin = cls.mixin or cls.base.mixin
        cls.lenient = cls.lenient or cls.base.lenient
        cls.problem = cls.problem or cls.base.problem
        if cls.kind == "plain" and cls.base.kind in ("enum", "namedtuple"):
            cls.kind = cls.base.kind
            cls.fields = list(cls.base.fields)
    keyword_only = False
    for decorator in node.decorator_list:
        options = _dataclass_options(m, decorator)
        if options is not None:
            cls.kind = "dataclass"
            cls.frozen = options.get("frozen") is True
            cls.by_identity = options.get("eq") is False
            cls.ordered = options.get("order") is True
            keyword_only = options.get("kw_only") is True
        elif not _is_neutral(m, decorator):
            cls.problem = cls.problem or (
                f"class {cls.name} has the decorator {ast.unparse(decorator)}"
            )
    cls.members = {}
    names = m.class_body(cls, node.body)
    if cls.lenient or cls.kind in ("dataclass", "namedtuple"):
        _collect_fields(m, cls, node, names, keyword_only)
    cls.members.update(names)
    hook = next((name for c in cls.lineage() for name in _HOOKS if name in (c.members or ())), None)
    if hook is not None:
        cls.problem = cls.problem or f"class {cls.name} has its own {hook}"
    for value in names.values():
        _claim(cls, value)
    if cls.kind == "enum":
        make_members(m, cls, names)
    return cls


def _inherit(m: Machine, cls: ClassValue, node: ast.expr) -> None:
    base = m.eval(node.value if isinstance(node, ast.Subscript) else node)
    if isinstance(base, ClassValue):
        if cls.base is not None:
            cls.problem = f"class {cls.name} inherits from several classes"
        cls.base = base
    elif isinstance(base, Ref) and base.path in _ENUMS:
        cls.kind, cls.mixin = "enum", cls.mixin or _ENUMS[base.path]
    elif base == Ref("typing.NamedTuple"):
        cls.kind = "namedtuple"
    elif isinstance(base, Ref) and base.path in ("builtins.int", "builtins.str"):
        cls.mixin = base.last
    elif isinstance(base, Ref) and base.path in _OBJECTS:
        cls.lenient = True
    elif isinstance(base, Ref) and (base.path in _NEUTRAL or base.last.endswith("Error")):
        return
    elif isinstance(base, Ref) and base.path in ("builtins.Exception", "builtins.BaseException"):
        return
    else:
        why = f" ({base.reason})" if isinstance(base, Unknown) else ""
        cls.problem = f"class {cls.name} inherits from {ast.unparse(node)}, which is not known{why}"


def _dataclass_options(m: Machine, node: ast.expr) -> dict[str, Value] | None:
    """Options of ``@dataclass``; None for another decorator."""
    function = node.func if isinstance(node, ast.Call) else node
    if m.eval(function) != Ref("dataclasses.dataclass"):
        return None
    keywords = node.keywords if isinstance(node, ast.Call) else []
    return {k.arg: m.eval(k.value) for k in keywords if k.arg is not None}


def _is_neutral(m: Machine, node: ast.expr) -> bool:
    found = m.eval(node.func if isinstance(node, ast.Call) else node)
    if not isinstance(found, Ref):
        return False
    head = found.path.partition(".")[0]
    return found.path in _NEUTRAL_DECORATORS or head in ("nki", "ncc", "nl")


def _collect_fields(
    m: Machine,
    cls: ClassValue,
    node: ast.ClassDef,
    names: dict[str, Value],
    keyword_only: bool,
) -> None:
    """Inherited fields, then the class's own; one of the same name takes its place."""
    inherited = cls.base.fields if cls.base is not None else []
    fields = {f.name: f for f in inherited}
    for statement in node.body:
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        annotation = ast.unparse(statement.annotation)
        if annotation.startswith(("ClassVar", "typing.ClassVar")):
            continue
        if annotation in ("KW_ONLY", "dataclasses.KW_ONLY"):
            keyword_only = True
            continue
        name = statement.target.id
        default = names.get(name, MISSING) if statement.value is not None else MISSING
        if isinstance(default, FieldSpec):
            fields[name] = Field(
                name,
                default.default,
                default.factory,
                default.init,
                keyword_only or default.keyword,
                default.compare,
            )
            names.pop(name, None)
            if default.default is not MISSING:
                names[name] = default.default
        else:
            fields[name] = Field(name, default, MISSING, True, keyword_only)
    if cls.lenient:
        for name, value in names.items():
            if name not in fields and not name.startswith("__") and _is_data(value):
                fields[name] = Field(name, value, MISSING)
    cls.fields = list(fields.values())


def _is_data(value: Value) -> bool:
    return not isinstance(value, Function | Descriptor | Bound | ClassValue | ListValue | dict)


def _claim(cls: ClassValue, value: Value) -> None:
    """Tell methods which class they are of."""
    if isinstance(value, Function) and value.owner is None:
        value.owner = cls
    elif isinstance(value, Descriptor):
        _claim(cls, value.function)
        _claim(cls, value.setter)


def members_of(cls: ClassValue, name: str, m: Machine | None = None) -> Iterator[Value]:
    """What the class and those that it inherits from define under a name, nearest first."""
    for owner in cls.lineage():
        if owner.members is not None and name in owner.members:
            if m is not None:
                m.reads(owner.members, name)
            yield owner.members[name]


def class_attribute(m: Machine, cls: ClassValue, name: str) -> Value:
    """``cls.name``; :data:`UNBOUND` if there is none."""
    found = next(members_of(cls, name, m), UNBOUND)
    if isinstance(found, Descriptor):
        if found.kind == "static":
            return found.function
        if found.kind == "class":
            return Bound(found.function, (cls,))
        return Unknown(f"the property {cls.name}.{name} of no object")
    if any(hook in (c.members or ()) for c in cls.lineage() for hook in _HOOKS):
        return Unknown(f"{cls.name}.{name} is not known: {cls.problem}")
    if found is not UNBOUND:
        return found
    if name in ("__name__", "__qualname__"):
        return cls.name
    if name == "__init__":
        return Bound(GENERATED_INIT, (cls,))
    if name == "__members__" and cls.kind == "enum":
        return m.new_dict(dict(cls.roster))
    if name == "_fields" and cls.kind == "namedtuple":
        return tuple(f.name for f in cls.fields)
    if name == "_make" and cls.kind == "namedtuple":
        return Bound(Ref("builtins._make"), (cls,))
    return UNBOUND


def bound_member(m: Machine, cls: ClassValue, owner: Value, name: str) -> Value:
    """What the class gives an object under a name; :data:`UNBOUND` if nothing."""
    found = next(members_of(cls, name, m), UNBOUND)
    if isinstance(found, Function):
        return Bound(found, (owner,))
    if isinstance(found, Descriptor):
        if found.kind == "cached" and isinstance(owner, Instance):
            m.reads(owner.fields, name)
            value = _call(m, found.function, [owner])
            m.set_entry(owner, owner.fields, name, value)
            return value
        if found.kind in ("property", "cached"):
            return _call(m, found.function, [owner])
        return found.function if found.kind == "static" else Bound(found.function, (cls,))
    return found


def instance_attribute(m: Machine, value: Instance, name: str) -> Value:
    """``value.name``; :data:`UNBOUND` if there is none."""
    fields = value.fields
    if name in fields:
        m.reads(fields, name)
        return fields[name]
    found = bound_member(m, value.cls, value, name)
    if found is not UNBOUND:
        return found
    if name == "__class__":
        return value.cls
    if name == "__dict__":
        return m.new_dict(fields)
    getter = next(members_of(value.cls, "__getattr__"), UNBOUND)
    if isinstance(getter, Function):
        return _call(m, getter, [value, name])
    return UNBOUND


@attributes(Instance, ClassValue, Super, NamedTuple, EnumInt, EnumStr)
def object_attribute(m: Machine, value: Value, name: str) -> Value:
    """``value.name`` of an object, a class or ``super()``."""
    if isinstance(value, Instance):
        found = instance_attribute(m, value, name)
        kind = value.cls.name
    elif isinstance(value, ClassValue):
        found = class_attribute(m, value, name)
        kind = value.name
    elif isinstance(value, Super):
        found = super_attribute(m, value, name)
        kind = "super()"
    else:
        found = _member_attribute(m, value, name)
        kind = value.cls.name
    if found is not UNBOUND:
        return found
    cls = value if isinstance(value, ClassValue) else getattr(value, "cls", None)
    if isinstance(cls, ClassValue) and cls.problem:
        return Unknown(f"{kind}.{name} is not known: {cls.problem}")
    if isinstance(value, NamedTuple | EnumStr):
        return Method(value, name)
    return Unknown(f"{kind} has no attribute {name!r} that analysis knows")


def _member_attribute(m: Machine, value: NamedTuple | EnumInt | EnumStr, name: str) -> Value:
    """An attribute of a named tuple, or of a member of an enumeration that is a number or text."""
    if isinstance(value, NamedTuple):
        for position, field in enumerate(value.cls.fields):
            if field.name == name:
                return value[position]
        if name == "_fields":
            return tuple(f.name for f in value.cls.fields)
    elif name in ("value", "_value_"):
        return int(value) if isinstance(value, EnumInt) else str.__str__(value)
    elif name in ("name", "_name_"):
        return value.label
    return bound_member(m, value.cls, value, name)


def set_attribute(m: Machine, owner: Value, name: str, value: Value) -> None:
    """``owner.name = value``."""
    if isinstance(owner, ClassValue):
        m.altered = True
        if owner.members is not None:
            m.set_entry(owner, owner.members, name, value)
        return
    if not isinstance(owner, Instance):
        if isinstance(owner, ModuleValue):
            m.altered = True
            m.journal.set_item(owner.home.scope.names, name, value)
        return
    found = next(members_of(owner.cls, name), UNBOUND)
    if isinstance(found, Descriptor) and found.kind == "property":
        if found.setter is None:
            raise Undecided(f"{owner.cls.name}.{name} cannot be set")
        _call(m, found.setter, [owner, value])
        return
    if any(c.frozen for c in owner.cls.lineage()):
        raise Undecided(f"{owner.cls.name} is frozen: {name} cannot be set")
    m.set_entry(owner, owner.fields, name, value)


def super_attribute(m: Machine, value: Super, name: str) -> Value:
    """``super().name``."""
    if value.cls is not None:
        if name == "__init__" and next(members_of(value.cls, name), None) is None:
            return Bound(GENERATED_INIT, (value.cls, value.instance))
        if isinstance(value.instance, ClassValue):
            return class_attribute(m, value.cls, name)
        return bound_member(m, value.cls, value.instance, name)
    if name in ("__init__", "__post_init__", "__init_subclass__", "__setattr__"):
        return Bound(Ref("builtins.nothing"), ())
    return UNBOUND


def method_of(m: Machine, value: Value, name: str) -> Value:
    """A method of an object, bound to it; None if its class has none."""
    cls = getattr(value, "cls", None)
    if not isinstance(cls, ClassValue):
        return None
    found = bound_member(m, cls, value, name)
    return found if isinstance(found, Bound) else None


def _call(m: Machine, function: Value, args: list[Value]) -> Value:
    from accelopt_lsp.analysis.calls import call_value

    return call_value(m, ast.Pass(lineno=m.line, col_offset=0), function, args, {}, {})


def instantiate(m: Machine, cls: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A new object of a class, or a member of an enumeration."""
    if cls.problem:
        return Unknown(cls.problem)
    if cls.kind == "enum":
        return find_member(cls, args[0]) if args else Unknown(f"{cls.name}() without a value")
    if cls.kind == "namedtuple":
        return NamedTuple.of(cls, list(field_values(m, cls, args, kwargs).values()))
    written = next(members_of(cls, "__init__"), None)

    def make(m: Machine, _: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
        instance = Instance(cls, loops=tuple(m.loops))
        problem = initialize(m, cls, instance, args, kwargs)
        return instance if problem is None else problem

    if isinstance(written, Function) and cls.kind == "plain" and is_clean(cls):
        return repeated(m, written, args, kwargs, make, made=cls)
    return make(m, written, args, kwargs)


def initialize(
    m: Machine, cls: ClassValue, instance: Value, args: list[Value], kwargs: dict[str, Value]
) -> Unknown | None:
    """Run ``__init__`` of a class for an object; why that is not possible, if so."""
    if not isinstance(instance, Instance):
        return Unknown("an object that is not known")
    for owner in cls.lineage():
        assert owner.members is not None
        written = owner.members.get("__init__")
        if written is not None:
            _call_with(m, written, [instance, *args], kwargs)
            return None
        if owner.kind == "dataclass":
            break
    if not cls.fields and (args or kwargs) and cls.node is not None and not cls.lenient:
        _annotated_fields(cls)
    for name, value in field_values(m, cls, args, kwargs).items():
        m.set_entry(instance, instance.fields, name, value)
    after = next(members_of(cls, "__post_init__"), None)
    if after is not None:
        _call(m, after, [instance])
    return None


def _annotated_fields(cls: ClassValue) -> None:
    """Classes without ``__init__`` take their annotated names, as dataclasses do."""
    assert cls.node is not None
    assert cls.members is not None
    for statement in cls.node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            cls.fields.append(Field(name, cls.members.get(name, MISSING), MISSING))


def _call_with(m: Machine, function: Value, args: list[Value], kwargs: dict[str, Value]) -> None:
    from accelopt_lsp.analysis.calls import call_value

    call_value(m, ast.Pass(lineno=m.line, col_offset=0), function, args, kwargs, {})


def field_values(
    m: Machine, cls: ClassValue, args: list[Value], kwargs: dict[str, Value]
) -> dict[str, Value]:
    """Values of a dataclass's fields for the arguments of a call.

    Raises:
        Undecided: the arguments do not fit.
    """
    fields = next((c.fields for c in cls.lineage() if c.fields), [])
    places = [f.name for f in fields if f.init and not f.keyword]
    if len(args) > len(places):
        raise Undecided(f"{cls.name} takes {len(places)} values, got {len(args)}")
    given = dict(zip(places, args, strict=False)) | kwargs
    strange = given.keys() - {f.name for f in fields if f.init}
    if strange and (not cls.lenient or cls.kind == "dataclass"):
        raise Undecided(f"{cls.name} has no field {min(strange)!r}")
    values: dict[str, Value] = {}
    for field in fields:
        if field.name in given:
            values[field.name] = given[field.name]
        elif field.factory is not MISSING:
            values[field.name] = _call(m, field.factory, [])
        elif field.default is not MISSING:
            values[field.name] = field.default
        elif cls.lenient:
            values[field.name] = None
        elif field.init:
            raise Undecided(f"{cls.name} needs {field.name}")
    return values | {name: given[name] for name in given if name in strange}


__all__ = ["KernelRaises", "define_class", "instantiate", "method_of"]
