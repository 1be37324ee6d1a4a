"""The signature of the call that a place is inside of, and which parameter is being written."""

from __future__ import annotations

from attrs import frozen

from accelopt_lsp.nki.reference.names import Name
from accelopt_lsp.nki.reference.parameters import (
    Parameter,
    Passing,
    parameter_text,
    signature_pieces,
)
from accelopt_lsp.nki.writing.completion import active_parameter
from accelopt_lsp.nki.writing.place import Place
from accelopt_lsp.nki.writing.scan import Where, where


@frozen(slots=True)
class ShownParameter:
    """A parameter within a shown signature.

    Attributes:
        start, end: its characters in the label.
        documentation: what it is, where it may live, which limits name it.
    """

    text: str
    start: int
    end: int
    documentation: str


@frozen(slots=True)
class ShownCall:
    """A signature and the parameter that is being written.

    Attributes:
        name: what is called.
        missing: why code here cannot call it; empty if it can.
        active: number of the parameter; None if it cannot be told.
    """

    name: Name
    label: str
    parameters: tuple[ShownParameter, ...]
    missing: str
    active: int | None


def shown_call(place: Place) -> ShownCall | None:
    """The innermost call of NKI around a place; None in strings, comments and other calls."""
    if where(place.text, place.offset)[0] is not Where.CODE or not place.calls:
        return None
    call = place.calls[-1]
    name = place.named(call)
    if name is None:
        return None
    signature = name.calls.get(place.dialect)
    if signature is None:
        return None
    label = f"{call.callee.lstrip('.')}"
    parameters, shown = [], []
    for text, parameter in signature_pieces(name.path, signature):
        if parameter is not None:
            parameters.append(parameter)
            shown.append(
                ShownParameter(
                    text,
                    len(label),
                    len(label) + len(text),
                    parameter_text(name.path, parameter.name, name.api),
                )
            )
        label += text
    active = active_parameter(tuple(parameters), [(a.keyword, a.starred) for a in call.arguments])
    if active is None:
        written = place.code[call.arguments[-1].start : place.offset].strip()
        active = _begun(parameters, {a.keyword for a in call.arguments}, written)
    return ShownCall(name, label, tuple(shown), place.missing(name), active)


def _begun(parameters: list[Parameter], given: set[str | None], written: str) -> int | None:
    """The parameter whose keyword is being written; None if that is not told yet."""
    found = [
        number
        for number, p in enumerate(parameters)
        if p.passing in (Passing.EITHER, Passing.KEYWORD)
        and p.name not in given
        and p.name.startswith(written)
    ]
    return found[0] if written and found else None
