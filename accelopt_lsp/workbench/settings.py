"""Settings of a project: ``[tool.accelopt]`` in ``pyproject.toml``, overridden by the caller."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import evolve, field, fields, frozen

from accelopt_lsp.nki.dialects import is_version
from accelopt_lsp.nki.targets import get_target


class SettingsError(ValueError):
    """A setting that cannot be used. The message names it and says what is expected."""


@frozen(slots=True)
class Settings:
    """What a user may configure.

    Attributes:
        target: target for kernels that name none; None takes trn1 for legacy kernels and
            trn2 for current ones.
        nki_version: NKI version in force, such as ``0.6``; None means unknown, and rules that
            depend on a version are then only warnings.
        ignore: rule codes that are not reported.
        exclude: path patterns that ``check`` leaves out.
        timeout_seconds: wall-clock limit of one run of a kernel.
        read_paths: further folders that kernels may read in the sandbox.
    """

    target: str | None = None
    nki_version: str | None = None
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    timeout_seconds: float = 300.0
    read_paths: tuple[str, ...] = field(default=())


def settings_for(path: Path, overrides: Mapping[str, Any] | None = None) -> Settings:
    """Settings that apply to a file: its project's, then ``overrides``.

    Args:
        path: a file or folder; ``pyproject.toml`` is looked up from there upwards.
        overrides: values that win, such as options of a command; None values are skipped.

    Raises:
        SettingsError: a value has the wrong type, or ``pyproject.toml`` cannot be read.
    """
    values = dict(_project_table(path))
    values.update({k: v for k, v in (overrides or {}).items() if v is not None})
    return parse_settings(values)


def parse_settings(values: Mapping[str, Any]) -> Settings:
    """Check values from outside and build settings from them.

    Names may be written with dashes or underscores. Unknown names are an error, since a
    misspelt setting that is silently ignored helps nobody.

    Raises:
        SettingsError: unknown name or wrong type.
    """
    known = {f.name: f for f in fields(Settings)}
    settings = Settings()
    for raw, value in values.items():
        name = raw.replace("-", "_")
        if name not in known:
            raise SettingsError(f"unknown setting {raw!r}; known: {', '.join(sorted(known))}")
        settings = evolve(settings, **{name: _convert(name, value)})
    return settings


def _convert(name: str, value: Any) -> Any:
    if name in ("ignore", "exclude", "read_paths"):
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            raise SettingsError(f"{name} must be a list of strings, got {value!r}")
        return tuple(value)
    if name == "timeout_seconds":
        if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
            raise SettingsError(f"{name} must be a positive number of seconds, got {value!r}")
        return float(value)
    if not isinstance(value, str):
        raise SettingsError(f"{name} must be a string, got {value!r}")
    if name == "nki_version" and not is_version(value):
        raise SettingsError(f"nki-version must be a version such as 0.6, got {value!r}")
    if name == "target":
        try:
            return get_target(value).name
        except ValueError as error:
            raise SettingsError(str(error)) from None
    return value


def llm_table(path: Path) -> Mapping[str, Any]:
    """``[tool.accelopt.llm]`` of a file's project, as it stands there.

    Raises:
        SettingsError: ``pyproject.toml`` cannot be read, or it is no table.
    """
    found = _whole_table(path).get("llm", {})
    if not isinstance(found, dict):
        raise SettingsError("[tool.accelopt.llm] must be a table")
    return found


def _project_table(path: Path) -> Mapping[str, Any]:
    """The project's settings; tables below them belong to other rooms."""
    return {k: v for k, v in _whole_table(path).items() if not isinstance(v, dict)}


def _whole_table(path: Path) -> Mapping[str, Any]:
    folder = path.resolve()
    for candidate in (folder, *folder.parents):
        file = candidate / "pyproject.toml"
        if file.is_file():
            return _read_table(file)
    return {}


def _read_table(file: Path) -> Mapping[str, Any]:
    try:
        data = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{file}: {error}") from None
    table = data.get("tool", {}).get("accelopt", {})
    if not isinstance(table, dict):
        raise SettingsError(f"{file}: [tool.accelopt] must be a table")
    return table
