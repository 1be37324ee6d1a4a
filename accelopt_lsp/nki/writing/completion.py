"""What can be written at a place: NKI's names, keywords of calls and their values, directives.

Names that are not NKI's are left to the Python server beside us.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum

from attrs import evolve

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.reference.names import TENSOR, Name, NameKind, children, find_name
from accelopt_lsp.nki.reference.parameters import (
    Parameter,
    Passing,
    about,
    parameters_of,
    signature_text,
)
from accelopt_lsp.nki.reference.paths import canonical_path, path_dialect
from accelopt_lsp.nki.reference.values import values_of
from accelopt_lsp.nki.writing.directives import directive_suggestions
from accelopt_lsp.nki.writing.place import Place
from accelopt_lsp.nki.writing.scan import Where, dotted_before, keywords_behind, where
from accelopt_lsp.nki.writing.suggestions import Group, Suggestion

_FROM = re.compile(r"[ \t]*from[ \t]+([\w.]*)\Z")
_FROM_IMPORT = re.compile(
    r"^[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]*(?:\([^)]*|[^\n(]*)\Z", re.MULTILINE
)
_IMPORT = re.compile(r"[ \t]*import[ \t]+(?:[\w. ]+,[ \t]*)*([\w.]*)\Z")
_MODULES = tuple(
    path
    for dialect in (Dialect.CURRENT, Dialect.LEGACY)
    for path in (
        dialect.package,
        *(
            f"{dialect.package}.{name.last}"
            for name in children("nki")
            if name.kind is NameKind.MODULE and dialect in name.dialects
        ),
    )
)


class Order(StrEnum):
    """Groups of suggestions, the likeliest first."""

    VALUE = "1"
    KEYWORD = "2"
    NAME = "3"
    DEPRECATED = "8"
    UNAVAILABLE = "9"


def complete(place: Place) -> list[Suggestion]:
    """Everything that NKI offers at a place; empty where nothing of NKI fits."""
    part, start = where(place.text, place.offset)
    if part is Where.COMMENT:
        return directive_suggestions(place, start)
    if part is Where.STRING:
        return []
    imported = _imported(place)
    if imported is not None:
        return imported
    if not place.imports.table and not place.imports.stars:
        return []
    before = dotted_before(place.code, place.offset)
    if not before.attribute:
        return [*_in_call(place, before.start), *_star_names(place, before.start, before.word)]
    return _expected_first(place, list(_attributes(place, before.base, before.start)))


def _attributes(place: Place, base: str, start: int) -> Iterator[Suggestion]:
    path = place.imports.canonical(base)
    if path is not None:
        yield from _listed(place, children(path), start)
    elif place.is_tensor(start - 1):
        yield from _listed(place, children(TENSOR), start)


def _listed(place: Place, names: Iterable[Name], start: int) -> Iterator[Suggestion]:
    for name in names:
        if place.dialect in name.dialects:
            yield suggestion(place, name, start)


def suggestion(place: Place, name: Name, start: int, label: str | None = None) -> Suggestion:
    """A name as a suggestion; one that cannot be used here says why and comes last."""
    missing = place.missing(name)
    deprecated = name.is_deprecated(place.version)
    order = Order.UNAVAILABLE if missing else Order.DEPRECATED if deprecated else Order.NAME
    call = name.calls.get(place.dialect)
    detail = signature_text(name.path, call) if call is not None else ""
    return Suggestion(
        label=label or name.last,
        group=_group(name),
        order=order.value,
        start=start,
        detail=f"{missing} · {detail}" if missing and detail else missing or detail,
        path=name.path,
        deprecated=deprecated,
    )


def _group(name: Name) -> Group:
    return {
        NameKind.MODULE: Group.MODULE,
        NameKind.FUNCTION: Group.FUNCTION,
        NameKind.METHOD: Group.METHOD,
        NameKind.TYPE: Group.TYPE,
        NameKind.ENUM: Group.ENUM,
        NameKind.MEMBER: Group.MEMBER,
        NameKind.ATTRIBUTE: Group.ATTRIBUTE,
    }.get(name.kind, Group.CONSTANT)


def _expected_first(place: Place, found: list[Suggestion]) -> list[Suggestion]:
    """What the parameter takes that is being written comes before everything else."""
    expected = set(_expected(place))
    if not expected:
        return found
    return [
        evolve(s, order=Order.VALUE.value) if s.path in expected and s.order == Order.NAME else s
        for s in found
    ]


def _expected(place: Place) -> tuple[str, ...]:
    """Canonical names that the parameter at the place takes."""
    if not place.calls:
        return ()
    call = place.calls[-1]
    name = place.named(call)
    if name is None or place.dialect not in name.calls:
        return ()
    parameters = parameters_of(name.path, name.calls[place.dialect])
    active = active_parameter(parameters, [(a.keyword, a.starred) for a in call.arguments])
    if active is None:
        return ()
    return values_of(name, parameters[active].name, place.dialect)


def active_parameter(
    parameters: tuple[Parameter, ...], arguments: list[tuple[str | None, str]]
) -> int | None:
    """Number of the parameter that the last argument gives; None if it cannot be told.

    Args:
        arguments: keyword and stars of each argument so far.
    """
    keyword, stars = arguments[-1]
    if keyword is not None:
        for number, parameter in enumerate(parameters):
            if parameter.name == keyword and parameter.passing is not Passing.MANY:
                return number
        return _of(parameters, Passing.REST)
    if stars == "**":
        return None
    before = arguments[:-1]
    if stars or any(s for _, s in before) or any(k is not None for k, _ in before):
        return _of(parameters, Passing.MANY) if stars else None
    position = len(arguments) - 1
    placed = [n for n, p in enumerate(parameters) if p.passing is Passing.EITHER]
    return placed[position] if position < len(placed) else _of(parameters, Passing.MANY)


def _of(parameters: tuple[Parameter, ...], passing: Passing) -> int | None:
    return next((n for n, p in enumerate(parameters) if p.passing is passing), None)


def _in_call(place: Place, start: int) -> list[Suggestion]:
    """Keywords that a call still lacks, or values of the one that is being given."""
    if not place.calls:
        return []
    call = place.calls[-1]
    name = place.named(call)
    if name is None or place.dialect not in name.calls:
        return []
    argument = call.arguments[-1]
    written = place.code[argument.start : start].split("=", 1)[-1]
    if written.strip(" \t\n"):
        return []  # inside an expression, a list or a group
    values = list(_values(place, start))
    if argument.keyword is not None or argument.starred:
        return values
    return [*values, *_keywords(place, name, start)]


def _values(place: Place, start: int) -> Iterator[Suggestion]:
    for number, path in enumerate(_expected(place)):
        if path in ("True", "False"):
            yield Suggestion(path, Group.VALUE, f"{Order.VALUE}{number}", start)
            continue
        name, local = find_name(path), place.imports.local(path)
        if name is not None and local is not None:
            found = suggestion(place, name, start, local)
            if found.order == Order.NAME:
                found = evolve(found, order=f"{Order.VALUE}{number:03}")
            yield evolve(found, detail="" if name.calls else found.detail)


def _keywords(place: Place, name: Name, start: int) -> Iterator[Suggestion]:
    parameters = parameters_of(name.path, name.calls[place.dialect])
    call = place.calls[-1]
    given = {a.keyword for a in call.arguments} | keywords_behind(place.code, place.offset)
    placed = sum(1 for a in call.arguments[:-1] if a.keyword is None and not a.starred)
    for number, parameter in enumerate(parameters):
        if parameter.name in given or parameter.passing in (Passing.MANY, Passing.REST):
            continue
        if parameter.passing is Passing.EITHER and number < placed:
            continue
        yield Suggestion(
            label=f"{parameter.name}=",
            group=Group.KEYWORD,
            order=f"{Order.KEYWORD}{number:02}",
            start=start,
            detail="" if parameter.default is None else f"default {parameter.default}",
            documentation=about(name.path, parameter.name).text,
        )


def _star_names(place: Place, start: int, word: str) -> list[Suggestion]:
    """Names of modules that were imported with a star."""
    if not word:
        return []
    modules = place.imports.stars
    return [s for module in modules for s in _listed(place, children(module), start)]


def _imported(place: Place) -> list[Suggestion] | None:
    """Modules and names of an import statement; None in any other."""
    line_start = place.code.rfind("\n", 0, place.offset) + 1
    line = place.code[line_start : place.offset]
    module = _FROM.match(line) or _IMPORT.match(line)
    if module is not None:
        return list(_modules(place, module[1]))
    begin = place.code.rfind("from", 0, place.offset)
    begin = place.code.rfind("\n", 0, begin) + 1 if begin >= 0 else place.offset
    statement = _FROM_IMPORT.match(place.code, begin, place.offset)
    if statement is None:
        return None
    dialect, path = path_dialect(statement[1]), canonical_path(statement[1])
    if dialect is None:
        return []
    start = dotted_before(place.code, place.offset).start
    if path == "neuronxcc":
        return [Suggestion("nki", Group.MODULE, Order.NAME.value, start)]
    imports = evolve(place.imports, dialect=dialect)
    there = Place(place.text, place.offset, place.target, place.version, imports=imports)
    return list(_listed(there, children(path), start))


def _modules(place: Place, written: str) -> Iterator[Suggestion]:
    """Modules whose path begins as written, from the part that is being written on."""
    head = written[: written.rfind(".") + 1]
    start = place.offset - (len(written) - len(head))
    for path in _MODULES if written else ():
        if path.startswith(written) and path != head:
            yield Suggestion(path[len(head) :], Group.MODULE, Order.NAME.value, start)
