"""Small classes of the file: dataclass-like configuration objects and their methods."""

from __future__ import annotations

import ast

from accelopt_lsp.analysis.machine import Machine
from accelopt_lsp.analysis.scope import Scope
from accelopt_lsp.analysis.values import ClassValue, Function, Instance, Unknown, Value


def class_members(m: Machine, cls: ClassValue) -> dict[str, Value]:
    """Attributes and methods that a class body defines."""
    found = cls.members
    if found is None:
        scope = Scope(m.journal, cls.scope)
        outer, m.scope = m.scope, scope
        try:
            members: dict[str, Value] = {}
            for statement in cls.node.body:
                _member(m, statement, members, scope)
        finally:
            m.scope = outer
        found = cls.members = members
    return found


def _member(m: Machine, node: ast.stmt, members: dict[str, Value], scope: Scope) -> None:
    from accelopt_lsp.analysis.expressions import make_function

    if isinstance(node, ast.FunctionDef):
        members[node.name] = make_function(m, node.name, node)
    elif isinstance(node, ast.Assign):
        value = m.eval(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                members[target.id] = value
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        if node.value is not None:
            members[node.target.id] = m.eval(node.value)
    scope.names.update(members)


def method_of(m: Machine, instance: Instance, name: str) -> Function | None:
    """The method of an object, or None."""
    found = class_members(m, instance.cls).get(name)
    return found if isinstance(found, Function) else None


def instantiate(m: Machine, cls: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A new object: by ``__init__``, or field by field as dataclasses and named tuples do."""
    from accelopt_lsp.analysis.calls import call_function

    members = class_members(m, cls)
    instance = Instance(cls, loops=tuple(m.loops))
    initializer = members.get("__init__")
    if isinstance(initializer, Function):
        call_function(m, initializer, [instance, *args], kwargs)
        return instance
    names = [
        s.target.id
        for s in cls.node.body
        if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name)
    ]
    given = dict(zip(names, args, strict=False)) | kwargs
    for name in names:
        if name in given:
            instance.fields[name] = given[name]
        elif name not in members:
            instance.fields[name] = Unknown(f"{cls.name}.{name} is not given")
    return instance
