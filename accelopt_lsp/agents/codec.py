"""JSON forms of profiles, failures, plans, arguments and experiences."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs
import cattrs
from cattrs.errors import BaseValidationError

from accelopt_lsp.agents.roles import Experience, Plan
from accelopt_lsp.nki.arguments import KernelArguments, SpecError, parse_spec
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import Failure, Outcome

_converter = cattrs.Converter(forbid_extra_keys=True)
_tolerant = cattrs.Converter()


class CodecError(ValueError):
    """A JSON text that is not what it should be. The message says what is wrong."""


def _plain(instance: Any, attribute: Any, value: Any) -> Any:
    return str(value) if hasattr(value, "value") and isinstance(value, str) else value


def dumps(value: Any) -> str:
    """Compact JSON with sorted keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """A profile or failure as plain data."""
    kind = "profile" if isinstance(outcome, Profile) else "failure"
    return {"kind": kind, kind: attrs.asdict(outcome, value_serializer=_plain)}


def outcome_from_json(data: Mapping[str, Any]) -> Outcome:
    """Inverse of :func:`outcome_to_json`; fields of later versions are skipped.

    Raises:
        CodecError: neither a profile nor a failure.
    """
    try:
        if data["kind"] == "profile":
            return _tolerant.structure(data["profile"], Profile)
        return _tolerant.structure(data["failure"], Failure)
    except (BaseValidationError, KeyError, TypeError, ValueError) as error:
        raise CodecError(f"stored evaluation cannot be read: {error}") from error


def arguments_to_json(arguments: KernelArguments) -> dict[str, Any]:
    """Arguments with every SPEC as text."""
    return {
        "values": {name: str(spec) for name, spec in arguments.values.items()},
        "target": arguments.target,
        "reference": arguments.reference,
        "grid": list(arguments.grid),
        "origins": dict(arguments.origins),
        "missing": list(arguments.missing),
    }


def arguments_from_json(data: Mapping[str, Any]) -> KernelArguments:
    """Inverse of :func:`arguments_to_json`.

    Raises:
        CodecError: a SPEC cannot be read or a field is missing.
    """
    try:
        return KernelArguments(
            values={name: parse_spec(text) for name, text in data["values"].items()},
            target=data.get("target"),
            reference=data.get("reference"),
            grid=tuple(int(n) for n in data.get("grid", ())),
            origins=dict(data.get("origins", {})),
            missing=tuple(data.get("missing", ())),
        )
    except (SpecError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise CodecError(f"stored arguments cannot be read: {error}") from error


def plan_to_json(plan: Plan) -> dict[str, Any]:
    """A plan without its opaque site."""
    return {
        "title": plan.title,
        "rationale": plan.rationale,
        "rewrite": plan.rewrite,
        "parameters": dict(plan.parameters),
        "line": plan.line,
        "experiences": list(plan.experiences),
    }


def experience_to_json(experience: Experience, *, with_code: bool = True) -> dict[str, Any]:
    """An experience as plain data; without the two kernels' text unless asked for."""
    data = attrs.asdict(experience)
    if not with_code:
        data["slow"] = data["fast"] = None
    return data


def experience_from_json(data: Any) -> Experience:
    """Inverse of :func:`experience_to_json`; strict: unknown fields and wrong types fail.

    Raises:
        CodecError: not an experience.
    """
    if not isinstance(data, Mapping):
        raise CodecError("an experience must be a JSON object")
    try:
        experience = _converter.structure(data, Experience)
    except (BaseValidationError, KeyError, TypeError, ValueError) as error:
        reasons = cattrs.transform_error(error) if isinstance(error, BaseValidationError) else []
        raise CodecError("; ".join(reasons[:3]) or str(error)) from error
    _check_types(experience, data)
    return experience


def _check_types(experience: Experience, data: Mapping[str, Any]) -> None:
    """Structuring converts (5 becomes "5"); what was given must already have the type."""
    for name in ("id", "title", "text", "before", "after"):
        if name in data and not isinstance(data[name], str):
            raise CodecError(f"{name} must be a string")
    for name in ("wins", "losses"):
        if name in data and (isinstance(data[name], bool) or not isinstance(data[name], int)):
            raise CodecError(f"{name} must be an integer")
    for name in ("helpful", "pinned", "trusted"):
        if name in data and not isinstance(data[name], bool):
            raise CodecError(f"{name} must be true or false")
    if not (experience.ratio == experience.ratio and 0 < experience.ratio < 1e9):
        raise CodecError("ratio must be a positive number")
