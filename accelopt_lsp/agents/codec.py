"""JSON forms of profiles, failures, plans, arguments and experiences."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, get_type_hints

import attrs
import cattrs
from cattrs.errors import BaseValidationError

from accelopt_lsp.agents.roles import Experience, Origin, Plan, Tags
from accelopt_lsp.nki.arguments import KernelArguments, SpecError, parse_spec
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.profiler.base import Failure, Outcome

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
        "nki_version": arguments.nki_version,
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
            nki_version=data.get("nki_version"),
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
    values = _checked(data, Experience, "an experience")
    for name, kind in (("tags", Tags), ("origin", Origin)):
        if name in values:
            values[name] = kind(**_checked(values[name], kind, name))
    experience = Experience(**values)
    if not 0 < experience.ratio < 1e9:
        raise CodecError("ratio must be a positive number")
    return experience


def _checked(data: Any, kind: type[attrs.AttrsInstance], what: str) -> dict[str, Any]:
    """The fields of an object, each of the type it must have; nothing is converted but lists."""
    if not isinstance(data, Mapping):
        raise CodecError(f"{what} must be a JSON object")
    hints, required = _fields(kind)
    unknown = sorted(str(name) for name in data if name not in hints)
    if unknown:
        raise CodecError(f"{what} has unknown fields: {', '.join(unknown)[:200]}")
    missing = [name for name in required if name not in data]
    if missing:
        raise CodecError(f"{what} lacks {', '.join(missing)}")
    for name, value in data.items():
        if not _fits(value, hints[name]):
            raise CodecError(f"{name} must be {_WANTED.get(hints[name], 'a JSON object')}")
    return {n: tuple(v) if isinstance(v, list) else v for n, v in data.items()}


@cache
def _fields(kind: type[attrs.AttrsInstance]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Types of all fields, and the names of those without a default."""
    required = tuple(f.name for f in attrs.fields(kind) if f.default is attrs.NOTHING)
    return get_type_hints(kind), required


_WANTED: Mapping[object, str] = {
    str: "a string",
    str | None: "a string or null",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    tuple[str, ...]: "a list of strings",
}


def _fits(value: Any, hint: Any) -> bool:
    if hint is bool or isinstance(value, bool):
        return hint is bool and isinstance(value, bool)
    if hint is float:
        # Larger integers than these are no figures, and cannot be compared with any.
        return isinstance(value, float) or (isinstance(value, int) and abs(value) < 1 << 62)
    if hint == str | None:
        return value is None or isinstance(value, str)
    if hint == tuple[str, ...]:
        return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
    return isinstance(value, Mapping if attrs.has(hint) else hint)
