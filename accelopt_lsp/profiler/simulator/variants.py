"""One trace, many schedules: what changes from one to the next, and what comes of each.

Ablations and calibration schedule a kernel again and again with other constants or without one
rule. A trace exists only in the child that ran the kernel, so the child gets all
:class:`Variant` at once and answers each with a :class:`VariantProfile`. Neither side trusts the
other: overrides are checked against the tables of the target and the policy, answers field by
field.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

import attrs
from attrs import field, frozen

from accelopt_lsp.nki.profile import COUNTER_NAMES, Bound
from accelopt_lsp.nki.targets import Constant, Target

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.timeline.policy import Policy
    from accelopt_lsp.profiler.simulator.timeline.schedule import Schedule

MAX_FACTOR = 1000.0
"""No constant may become more than this many times what the table says."""
MAX_COUNT_FACTOR = 8
"""The same for constants that count things, of which each takes memory."""
MAX_POLICY_INTEGER = 1 << 20
_COUNT_UNITS = frozenset({"partitions", "elements", "banks", "engines", "B/partition", "passes"})
_TIME_UNITS = frozenset({"ns", "cycles"})


class VariantError(ValueError):
    """An override that the simulator does not accept, or an answer that is none."""


@frozen(slots=True)
class Variant:
    """Overrides of one schedule.

    Attributes:
        constants: machine constants by name, in the unit of the target's table.
        policy: fields of the dialect's policy by name.
    """

    constants: Mapping[str, Any] = field(factory=dict)
    policy: Mapping[str, Any] = field(factory=dict)


@frozen(slots=True)
class VariantProfile:
    """What came of one variant.

    Attributes:
        latency_ms: None over an unknown instruction.
        bound: what limits the kernel, None for an empty one.
        engine_busy_ms: occupied time by engine in milliseconds.
        counters: neuron-profile's summary names.
    """

    latency_ms: float | None
    bound: Bound | None
    engine_busy_ms: Mapping[str, float]
    counters: Mapping[str, float | None]


def is_continuous(constant: Constant) -> bool:
    """Whether a constant may be a little smaller or larger; what counts things may not."""
    return constant.unit not in _COUNT_UNITS


def only_costs(target: Target, variant: Variant) -> bool:
    """Whether a variant's constants are costs of instructions, none a number of things."""
    return all(is_continuous(target.constants[name]) for name in variant.constants)


def variant_from_dict(data: Any) -> Variant:
    """Read a variant; :func:`varied_target` and :func:`varied_policy` check its values.

    Raises:
        VariantError: it has not the form of one.
    """
    if not isinstance(data, Mapping) or set(data) - {"constants", "policy"}:
        raise VariantError("a variant has constants and policy, and nothing else")
    parts = {name: data.get(name, {}) for name in ("constants", "policy")}
    for name, part in parts.items():
        if not isinstance(part, Mapping) or not all(isinstance(key, str) for key in part):
            raise VariantError(f"{name} of a variant are values by name")
    return Variant(dict(parts["constants"]), dict(parts["policy"]))


def varied_target(target: Target, variant: Variant) -> Target:
    """The target with a variant's constants.

    Raises:
        VariantError: an unknown constant, or a value that no machine could have.
    """
    for name, value in variant.constants.items():
        known = target.constants.get(name)
        if known is None:
            raise VariantError(f"{target.name} has no constant {name!r}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise VariantError(f"{name} is not a number: {value!r}")
        if is_continuous(known):
            # A time may vanish; a rate may not.
            least = 0.0 if known.unit in _TIME_UNITS else known.value / MAX_FACTOR
            fine = least <= value <= MAX_FACTOR * max(known.value, 1.0)
        else:
            fine = value == int(value) and 1 <= value <= MAX_COUNT_FACTOR * known.value
        if not fine:
            raise VariantError(f"{name} = {value!r} {known.unit} is out of range")
    return target.with_constants(variant.constants) if variant.constants else target


def varied_policy(policy: Policy, variant: Variant) -> Policy:
    """The policy with a variant's rules.

    Raises:
        VariantError: an unknown rule, or a value of another type or range.
    """
    names = {a.name for a in attrs.fields(type(policy))}
    for name, value in variant.policy.items():
        if name not in names:
            raise VariantError(f"the policy has no rule {name!r}")
        present = getattr(policy, name)
        if type(value) is not type(present) or not isinstance(value, bool | int | float):
            raise VariantError(f"{name} = {value!r} is not of type {type(present).__name__}")
        if not isfinite(value) or not 0 <= value <= MAX_POLICY_INTEGER:
            raise VariantError(f"{name} = {value!r} is out of range")
    return attrs.evolve(policy, **variant.policy) if variant.policy else policy


def variant_profile(schedule: Schedule) -> VariantProfile:
    """The part of a schedule's profile that comparisons need."""
    from accelopt_lsp.profiler.simulator.timeline.attribution import bound_of
    from accelopt_lsp.profiler.simulator.timeline.counters import counters

    latency = None if schedule.unknown or not len(schedule.stream) else schedule.latency_ns
    return VariantProfile(
        latency_ms=None if latency is None else latency * 1e-6,
        bound=bound_of(schedule),
        engine_busy_ms={name: ns * 1e-6 for name, ns in schedule.engine_busy_ns.items()},
        counters=dict(counters(schedule, latency)),
    )


def variant_profile_from_dict(data: Any) -> VariantProfile:
    """Read an answer.

    Raises:
        VariantError: it is none (the child is not to be trusted).
    """
    if not isinstance(data, Mapping):
        raise VariantError("not an object")
    bound = data.get("bound")
    try:
        return VariantProfile(
            latency_ms=_number(data.get("latency_ms")),
            bound=None if bound is None else Bound(bound),
            engine_busy_ms={
                name: value
                for name, value in _numbers(data.get("engine_busy_ms")).items()
                if value is not None
            },
            counters={
                name: value
                for name, value in _numbers(data.get("counters")).items()
                if name in COUNTER_NAMES
            },
        )
    except ValueError as error:
        raise VariantError(str(error)) from None


def _numbers(data: Any) -> dict[str, float | None]:
    if not isinstance(data, Mapping):
        raise VariantError("not an object")
    return {str(name): _number(value) for name, value in data.items()}


def _number(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise VariantError(f"not a number: {value!r}")
    if not isfinite(value) or value < 0:
        raise VariantError(f"out of range: {value!r}")
    return value
