"""The choices of a search: the project's, then the caller's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, fields

from accelopt_lsp.agents.settings import SearchSettings
from accelopt_lsp.workbench.settings import SettingsError, other_table, unknown_name

TABLE = "search"


def search_settings(path: Path, given: Mapping[str, Any]) -> SearchSettings:
    """``[tool.accelopt.search]`` of a file's project, and what is ``given`` in its place.

    Names may be written with dashes or underscores; see
    :class:`~accelopt_lsp.agents.settings.SearchSettings`.

    Raises:
        SettingsError: an unknown name, or a value that cannot be used.
    """
    values = {**_plain(other_table(path, TABLE)), **_plain(given)}
    for name, value in values.items():
        _check(name, value)
    try:
        return SearchSettings.from_json(values)
    except ValueError as error:
        raise SettingsError(str(error)) from error


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("-", "_"): value for name, value in values.items()}


def _check(name: str, value: Any) -> None:
    known = {field.name: field for field in fields(SearchSettings)}
    if name not in known:
        raise SettingsError(unknown_name(name, [n.replace("_", "-") for n in known]), (name,))
    default = known[name].default
    # A converter takes "5" for 5, and "no" for true.
    fits = not isinstance(value, str) or isinstance(default, str)
    fits = fits and isinstance(value, bool) == isinstance(default, bool)
    if fits:
        try:
            evolve(SearchSettings(), **{name: value})
            SearchSettings.from_json({name: value})
        except (TypeError, OverflowError):
            fits = False
        except ValueError as error:
            fits = "stored settings" not in str(error)
            if fits:
                raise SettingsError(f"{error}, got {value!r}", (name,)) from error
    if not fits:
        shown = name.replace("_", "-")
        raise SettingsError(f"{shown} must be like {default!r}, got {value!r}", (name,))
