"""What the client configures: section ``accelopt``, and the options it starts us with.

Names are as editors write them (``inlayHints.kinds``). Settings that concern the workbench are
handed on by name and checked there, together with the project's ``[tool.accelopt]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from reprlib import repr as short
from typing import Any

from attrs import evolve, field, frozen

from accelopt_lsp.agents.llm.settings import LlmSettingsError, llm_settings
from accelopt_lsp.server.hint_choice import HINT_KINDS, HintChoice
from accelopt_lsp.workbench.settings import SettingsError, parse_settings

AGENTS = ("offline", "llm")
_WORKBENCH = {
    "target": "target",
    "nkiVersion": "nki_version",
    "ignore": "ignore",
    "timeoutSeconds": "timeout_seconds",
    "readPaths": "read_paths",
}
"""Client's name to the name in ``[tool.accelopt]``."""
_BY_WORKER = frozenset({"ignore"})
"""Settings that the worker checks, which knows the rules."""
_RUNS_CODE = frozenset({"read_paths"})
"""Settings that an untrusted workspace may not give."""
MOST_SECONDS = 1e9
"""Limits beyond it are none, and no clock counts that far."""
LOG_LEVELS = ("error", "warning", "info", "debug")
_NAMES = (
    *_WORKBENCH,
    "trusted",
    "diagnostics.run",
    "diagnostics.workspace",
    "inlayHints.enabled",
    "inlayHints.kinds",
    "inlayHints.rich",
    "inlayHints.thresholdPercent",
    "codeLens.enabled",
    "semanticTokens.enabled",
    "optimize.budgetSeconds",
    "optimize.agents",
    "runs.atOnce",
    "logLevel",
    # The extension's own, which it hands on with the rest.
    "python",
    "server.command",
    "trace.server",
)
_SECTIONS = ("llm",)
"""Names below these are checked elsewhere."""


@frozen(slots=True)
class Configuration:
    """Settings of the editor.

    Attributes:
        trusted: code of the workspace may run (in the sandbox).
        diagnostics: ``onType``, ``onSave`` or ``off``.
        workspace_diagnostics: also of files that are not open, if the client asks.
        hints: which inlay hints are shown.
        code_lens: whether lenses are shown.
        semantic_tokens: whether tensors are told apart by memory.
        budget_seconds: wall-clock limit of one optimization.
        log_level: least level of what goes to the client's log.
        at_once: how many runs that the user starts may go on at the same time.
        agents: who optimizes: ``offline`` or ``llm``.
        llm: settings of models, by the names of :mod:`accelopt_lsp.agents.llm.settings`.
        workbench: settings for the workbench, by its names.
    """

    trusted: bool = True
    diagnostics: str = "onType"
    workspace_diagnostics: bool = False
    hints: HintChoice = HintChoice()
    code_lens: bool = True
    semantic_tokens: bool = True
    budget_seconds: float | None = None
    log_level: str = "warning"
    at_once: int = 2
    agents: str = "offline"
    llm: Mapping[str, Any] = field(factory=dict)
    workbench: Mapping[str, Any] = field(factory=dict)


def read_configuration(
    values: object, base: Configuration
) -> tuple[Configuration, tuple[str, ...]]:
    """Read the client's values over ``base``.

    Returns:
        The configuration, and one message for each value that cannot be used; such a value
        leaves its setting as it was.
    """
    if values is None:
        return base, ()
    if not isinstance(values, Mapping):
        return base, (f"the section accelopt must be an object, got {short(values)}",)
    problems = list(_unknown(values))
    result = base
    trusted = _value(values, "trusted", bool, problems)
    if trusted is not None:
        # Whoever started the server decides; settings can only take trust away.
        result = evolve(result, trusted=base.trusted and trusted)
    run = _value(values, "diagnostics.run", str, problems)
    if run in ("onType", "onSave", "off"):
        result = evolve(result, diagnostics=run)
    elif run is not None:
        problems.append(f"diagnostics.run must be onType, onSave or off, got {short(run)}")
    whole = _value(values, "diagnostics.workspace", bool, problems)
    if whole is not None:
        result = evolve(result, workspace_diagnostics=whole)
    lens = _value(values, "codeLens.enabled", bool, problems)
    if lens is not None:
        result = evolve(result, code_lens=lens)
    tokens = _value(values, "semanticTokens.enabled", bool, problems)
    if tokens is not None:
        result = evolve(result, semantic_tokens=tokens)
    result = evolve(result, hints=_hints(values, result.hints, problems))
    budget = _value(values, "optimize.budgetSeconds", (int, float), problems)
    if isinstance(budget, int | float) and 0 < budget <= MOST_SECONDS:
        result = evolve(result, budget_seconds=float(budget))
    elif budget is not None:
        problems.append(f"optimize.budgetSeconds must be positive, got {short(budget)}")
    level = _value(values, "logLevel", str, problems)
    if level in LOG_LEVELS:
        result = evolve(result, log_level=level)
    elif level is not None:
        problems.append(f"logLevel must be {', '.join(LOG_LEVELS)}, got {short(level)}")
    at_once = _value(values, "runs.atOnce", int, problems)
    if isinstance(at_once, int) and at_once > 0:
        result = evolve(result, at_once=at_once)
    elif at_once is not None:
        problems.append(f"runs.atOnce must be positive, got {short(at_once)}")
    agents = _value(values, "optimize.agents", str, problems)
    if agents in AGENTS:
        result = evolve(result, agents=agents)
    elif agents is not None:
        problems.append(f"optimize.agents must be offline or llm, got {short(agents)}")
    result = evolve(result, llm=_models(values, result, problems))
    result = evolve(result, workbench=_workbench(values, result, problems))
    return result, tuple(problems)


def _workbench(
    values: Mapping[str, Any], result: Configuration, problems: list[str]
) -> dict[str, Any]:
    """Settings that the workbench knows, by its names; those that it refuses stay as they were."""
    found: dict[str, Any] = {}
    for theirs, ours in _WORKBENCH.items():
        value = _lookup(values, theirs)
        if value in (None, "", []) or (ours in _RUNS_CODE and not result.trusted):
            continue
        if ours in _BY_WORKER:
            found[ours] = value
            continue
        try:
            parse_settings({ours: value})
        except SettingsError as error:
            said = str(error).replace(ours, theirs).replace(ours.replace("_", "-"), theirs)
            problems.append(said if theirs in said else f"{theirs}: {said}")
            if ours in result.workbench:
                found[ours] = result.workbench[ours]
        else:
            found[ours] = value
    return found


def concerns_us(values: Mapping[str, Any]) -> bool:
    """Whether an object holds settings of ours, not sections of several servers."""
    known = {name.partition(".")[0] for name in (*_NAMES, *_SECTIONS)}
    return any(str(name).partition(".")[0] in known for name in values)


def _unknown(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """One message for each name that there is not, with the nearest one that there is."""
    for name, value in values.items():
        full = f"{prefix}{name}"
        if full in _NAMES or full.partition(".")[0] in _SECTIONS:
            continue
        if any(n.startswith(f"{full}.") for n in _NAMES):
            if isinstance(value, Mapping):
                yield from _unknown(value, f"{full}.")
            elif value is not None:
                yield f"{full} must be an object, got {short(value)}"
            continue
        near = get_close_matches(full, _NAMES, 1)
        yield f"there is no {full}" + (f"; did you mean {near[0]}?" if near else "")


def _models(
    values: Mapping[str, Any], before: Configuration, problems: list[str]
) -> Mapping[str, Any]:
    """The section ``llm``: endpoints never come from where nothing is trusted."""
    if not before.trusted:
        return {}
    # Written as one object, or as names with dots in them.
    found = _snake({name[4:]: value for name, value in values.items() if name.startswith("llm.")})
    section = _value(values, "llm", Mapping, problems)
    found = {**_snake(section or {}), **found}
    try:
        llm_settings(None, found, {})
    except LlmSettingsError as error:
        problems.append(f"llm: {error}")
        return before.llm
    return found


def _snake(values: Mapping[str, Any]) -> dict[str, Any]:
    """``{"baseUrl": ...}`` as ``{"base_url": ...}``, without what is left empty."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        ours = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
        if isinstance(value, Mapping):
            value = _snake(value)
        if value not in (None, "", {}, []):
            found[ours] = value
    return found


def _hints(values: Mapping[str, Any], before: HintChoice, problems: list[str]) -> HintChoice:
    enabled = _value(values, "inlayHints.enabled", bool, problems)
    if enabled is False:
        return evolve(before, kinds=frozenset())
    result = before
    kinds = _lookup(values, "inlayHints.kinds")
    if kinds is None:
        result = evolve(result, kinds=frozenset(HINT_KINDS)) if enabled else result
    elif isinstance(kinds, list) and all(k in HINT_KINDS for k in kinds):
        result = evolve(result, kinds=frozenset(kinds))
    else:
        known = ", ".join(HINT_KINDS)
        problems.append(f"inlayHints.kinds must be a list of {known}; got {short(kinds)}")
    rich = _value(values, "inlayHints.rich", bool, problems)
    if rich is not None:
        result = evolve(result, rich=rich)
    threshold = _value(values, "inlayHints.thresholdPercent", (int, float), problems)
    if isinstance(threshold, int | float) and 0 <= threshold <= 100:
        result = evolve(result, threshold=float(threshold))
    elif threshold is not None:
        problems.append(
            f"inlayHints.thresholdPercent must be from 0 to 100, got {short(threshold)}"
        )
    return result


def _lookup(values: Mapping[str, Any], name: str) -> Any:
    """``a.b`` as ``{"a": {"b": ...}}`` or as ``{"a.b": ...}``."""
    if name in values:
        return values[name]
    found: Any = values
    for part in name.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    return found


def _value(
    values: Mapping[str, Any], name: str, kind: type | tuple[type, ...], problems: list[str]
) -> Any:
    found = _lookup(values, name)
    if found is None:
        return None
    wrong_bool = isinstance(found, bool) and kind is not bool
    if not isinstance(found, kind) or wrong_bool:
        expected = kind.__name__ if isinstance(kind, type) else "number"
        problems.append(f"{name} must be a {expected}, got {short(found)}")
        return None
    return found
