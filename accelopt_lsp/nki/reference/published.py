"""Addresses of AWS's documentation."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.reference.paths import full_path


@cache
def _table() -> Mapping[Dialect, Mapping[str, Any]]:
    text = files("accelopt_lsp.nki").joinpath("data/published.toml").read_text("utf-8")
    return {Dialect(key): row for key, row in tomllib.loads(text).items()}


@cache
def _listed(dialect: Dialect) -> frozenset[str]:
    modules = _table()[dialect]["pages"]
    return frozenset(f"{m}.{name}" for m, names in modules.items() for name in names.split())


def page_address(name: str, dialect: Dialect) -> str | None:
    """Address of a canonical name's page, else of its module's; None if neither is published."""
    row, full = _table()[dialect], full_path(name)
    parts = full.split(".")
    while len(parts) > 1:
        path = ".".join(parts)
        if path in _listed(dialect):
            return f"{row['root']}generated/{path}.html"
        if path in row["pages"]:
            return f"{row['root']}{path}.html"
        parts.pop()
    return None
