"""The table of public names: ``APIS`` by canonical name (``nisa.activation``, ``nl.exp``)."""

from __future__ import annotations

from collections.abc import Mapping

from accelopt_lsp.nki.apis import (
    elementwise,
    gather,
    language,
    movement,
    mx,
    random,
    reductions,
    search,
    selection,
    sequencer,
    tensor_engine,
)
from accelopt_lsp.nki.dialects import Api

_FAMILIES = (
    tensor_engine,
    elementwise,
    reductions,
    movement,
    sequencer,
    selection,
    search,
    gather,
    random,
    mx,
    language,
)
APIS: Mapping[str, Api] = {a.name: a for family in _FAMILIES for a in family.APIS}


def find_api(name: str) -> Api | None:
    """The API of that canonical name (``nisa.activation``, ``nl.exp``), or None."""
    return APIS.get(name)
