"""Settings of a project: ``[tool.accelopt]`` in ``pyproject.toml``, overridden by the caller."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from attrs import evolve, field, fields, frozen

from accelopt_lsp.agents.retrieval import MEMORY_POLICIES
from accelopt_lsp.nki.diagnostics import Severity
from accelopt_lsp.nki.dialects import is_version
from accelopt_lsp.nki.files import file_size, is_file, resolved
from accelopt_lsp.nki.targets import get_target

MOST_SECONDS = 1e9
"""The longest limit; no clock counts much further."""
MAX_PROJECT_BYTES = 1 << 20
"""Size of the largest ``pyproject.toml`` that is read; people's have a few KiB."""
_OTHER_TABLES = ("llm", "search")
"""Tables that belong to other rooms."""


class SettingsError(ValueError):
    """A setting that cannot be used. The message names it and says what is expected.

    Attributes:
        keys: where it stands below ``[tool.accelopt]``; empty if that is not known.
    """

    def __init__(self, message: str, keys: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.keys = keys


@frozen(slots=True)
class Settings:
    """What a user may configure.

    Attributes:
        target: target for kernels that name none; None takes trn1 for legacy kernels and
            trn2 for current ones.
        nki_version: NKI version in force, such as ``0.6``; None means unknown, and rules that
            depend on a version are then only warnings.
        ignore: rule codes that are not reported, or beginnings of codes (``P``).
        per_file_ignores: such codes by path pattern.
        severity: severity by code, or by the beginning of codes; the longest one counts.
        exclude: path patterns that ``check`` leaves out.
        timeout_seconds: wall-clock limit of one run of a kernel.
        read_paths: further folders that kernels may read in the sandbox.
        team_memory: file of experiences that the project keeps for its team.
        memory_policy: which experiences an optimization starts with: ``retrieval`` (those that
            fit), ``queue`` (the latest) or ``none``; None means retrieval.
    """

    target: str | None = None
    nki_version: str | None = None
    ignore: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(factory=dict)
    severity: Mapping[str, Severity] = field(factory=dict)
    exclude: tuple[str, ...] = ()
    timeout_seconds: float = 300.0
    read_paths: tuple[str, ...] = field(default=())
    team_memory: str | None = None
    memory_policy: str | None = None

    def ignored_in(self, path: Path | None) -> tuple[str, ...]:
        """Codes that are not reported in a file."""
        found = list(self.ignore)
        if path is not None and self.per_file_ignores:
            full = resolved(path).as_posix()
            for pattern, codes in self.per_file_ignores.items():
                if fnmatch(full, pattern) or fnmatch(path.name, pattern):
                    found.extend(codes)
        return tuple(found)


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


def usable_settings(
    path: Path, overrides: Mapping[str, Any] | None = None
) -> tuple[Settings, tuple[SettingsError, ...]]:
    """As :func:`settings_for`, without what cannot be used, and why that cannot be. Never raises.

    Only problems of ``overrides`` and of reading ``pyproject.toml`` are told:
    :func:`~accelopt_lsp.workbench.project_file.check_project_file` tells those of its values.
    """
    problems: list[SettingsError] = []
    settings = Settings()
    try:
        table = _project_table(path)
    except SettingsError as error:
        problems.append(error)
        table = {}
    ignored: list[SettingsError] = []
    for values, told in ((table, ignored), (overrides or {}, problems)):
        for name, value in values.items():
            if value is None or (told is ignored and not _is_known(name)):
                continue
            try:
                settings = _with(settings, name, value)
            except SettingsError as error:
                told.append(error)
    return settings, tuple(problems)


def _is_known(name: str) -> bool:
    return name.replace("-", "_") in {f.name for f in fields(Settings)}


def parse_settings(values: Mapping[str, Any]) -> Settings:
    """Check values from outside and build settings from them.

    Names may be written with dashes or underscores. Unknown names are an error, since a
    misspelt setting that is silently ignored helps nobody.

    Raises:
        SettingsError: unknown name or wrong type.
    """
    settings = Settings()
    for name, value in values.items():
        settings = _with(settings, name, value)
    return settings


def _with(settings: Settings, raw: str, value: Any) -> Settings:
    name = raw.replace("-", "_")
    known = [f.name for f in fields(Settings)]
    if name not in known:
        raise SettingsError(unknown_name(raw, [n.replace("_", "-") for n in known]), (raw,))
    try:
        return evolve(settings, **{name: _convert(name, value)})
    except SettingsError as error:
        raise SettingsError(str(error), error.keys or (raw,)) from None


def unknown_name(name: str, known: Iterable[str]) -> str:
    """What to say of a setting that there is not."""
    names = sorted(known)
    near = get_close_matches(name, names, 1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names)}"
    return f"unknown setting {name!r}; {hint}"


def _convert(name: str, value: Any) -> Any:
    if name in ("ignore", "exclude", "read_paths"):
        texts = _texts(name, value)
        return _codes(name, texts) if name == "ignore" else texts
    if name in ("per_file_ignores", "severity"):
        if not isinstance(value, Mapping):
            raise SettingsError(f"{name} must be a table, got {value!r}")
        return dict(_entry(name, key, entry) for key, entry in value.items())
    if name == "timeout_seconds":
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 < value <= MOST_SECONDS:
            raise SettingsError(f"{name} must be a positive number of seconds, got {value!r}")
        return float(value)
    if not isinstance(value, str):
        raise SettingsError(f"{name} must be a string, got {value!r}")
    if name == "memory_policy" and value not in MEMORY_POLICIES:
        known = ", ".join(MEMORY_POLICIES)
        raise SettingsError(f"memory-policy must be one of {known}, got {value!r}")
    if name == "nki_version" and not is_version(value):
        raise SettingsError(f"nki-version must be a version such as 0.6, got {value!r}")
    if name == "target":
        try:
            return get_target(value).name
        except ValueError as error:
            raise SettingsError(str(error)) from None
    return value


def _entry(name: str, key: str, value: Any) -> tuple[str, Any]:
    """One entry of a table; errors say which."""
    try:
        if name == "severity":
            return _codes(name, (key,))[0], _severity(key, value)
        return key, _codes(name, _texts(f"{name} of {key}", value))
    except SettingsError as error:
        raise SettingsError(str(error), (name.replace("_", "-"), key)) from None


def other_table(path: Path, name: str) -> Mapping[str, Any]:
    """``[tool.accelopt.NAME]`` of a file's project, as it stands there.

    Raises:
        SettingsError: ``pyproject.toml`` cannot be read, or it is no table.
    """
    found = _whole_table(path).get(name, {})
    if not isinstance(found, dict):
        raise SettingsError(f"[tool.accelopt.{name}] must be a table")
    return found


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
        raise SettingsError(f"{name} must be a list of strings, got {value!r}")
    return tuple(value)


def _codes(name: str, codes: tuple[str, ...]) -> tuple[str, ...]:
    """Codes, or beginnings of codes, in capitals."""
    from accelopt_lsp.analysis.rules import known_codes  # which takes all of analysis along

    found = []
    for code in codes:
        wanted = code.strip().upper()
        if not wanted or not any(known.startswith(wanted) for known in known_codes()):
            raise SettingsError(f"{name}: no rule's code begins with {code!r}")
        found.append(wanted)
    return tuple(found)


def _severity(code: str, value: Any) -> Severity:
    try:
        return Severity(value)
    except ValueError:
        known = ", ".join(Severity)
        raise SettingsError(
            f"severity of {code} must be one of {known}, got {value!r}; ignore switches a rule off"
        ) from None


def _project_table(path: Path) -> Mapping[str, Any]:
    """The project's settings, without what belongs to other rooms."""
    return own_settings(_whole_table(path))


def own_settings(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """What of ``[tool.accelopt]`` is read here."""
    return {k: v for k, v in table.items() if k not in _OTHER_TABLES}


def project_file(path: Path) -> Path | None:
    """The ``pyproject.toml`` that counts for a file or folder: the nearest one above it."""
    folder = resolved(path)
    files = (candidate / "pyproject.toml" for candidate in (folder, *folder.parents))
    return next((file for file in files if is_file(file)), None)


def project_text(file: Path) -> str:
    """What a ``pyproject.toml`` holds.

    Raises:
        OSError: it cannot be read.
        ValueError: it is too large, or no UTF-8.
    """
    size = file_size(file)
    if size > MAX_PROJECT_BYTES:
        raise ValueError(f"it has {size:,} bytes; more than {MAX_PROJECT_BYTES:,} are not read")
    return file.read_text("utf-8")


def read_toml(text: str) -> dict[str, Any]:
    """Parse TOML.

    Raises:
        ValueError: it is none, or one that nobody writes (``tomllib`` raises more than it says:
            for deep nesting, and for whole numbers with thousands of digits).
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("values are nested too deeply") from None


def _whole_table(path: Path) -> Mapping[str, Any]:
    file = project_file(path)
    return {} if file is None else _read_table(file)


def _read_table(file: Path) -> Mapping[str, Any]:
    try:
        data = read_toml(project_text(file))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{file}: {error}") from None
    tool = data.get("tool", {})
    table = tool.get("accelopt", {}) if isinstance(tool, dict) else tool
    if not isinstance(table, dict):
        raise SettingsError(f"{file}: [tool.accelopt] must be a table")
    ignores = table.get("per-file-ignores")
    if isinstance(ignores, dict):
        # Patterns with a folder are meant from the project's folder on.
        root = file.parent.as_posix()
        table["per-file-ignores"] = {
            (f"{root}/{pattern}" if "/" in pattern else pattern): codes
            for pattern, codes in ignores.items()
        }
    team = table.get("team-memory")
    if isinstance(team, str):
        table["team-memory"] = str(file.parent / team)
    return table
