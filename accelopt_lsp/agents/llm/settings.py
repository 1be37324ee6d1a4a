"""What models the roles use, and how: from the project, the environment and the caller.

The project's ``[tool.accelopt.llm]`` table holds the settings for all roles; tables below it
(``[tool.accelopt.llm.planner]``) override them for one role. Environment variables override
the project, and what a caller gives overrides both. API keys come from the environment only
(an editor puts the one from its secret store there), and go only where the user's own
environment, editor or command line sends them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from attrs import fields, frozen

ROLES = ("planner", "executor", "fixer", "summarizer")
OFFLINE = "offline"
"""As a model's name: the role is played by the catalogue of rewrites."""

URL_VARIABLES = ("ACCELOPT_LLM_BASE_URL", "OPENAI_BASE_URL")
MODEL_VARIABLE = "ACCELOPT_LLM_MODEL"
KEY_VARIABLES = ("ACCELOPT_LLM_API_KEY", "OPENAI_API_KEY")
KEY_HOST_VARIABLE = "ACCELOPT_LLM_KEY_HOST"
"""The only host that gets the key; set by editors, which keep a key for each endpoint."""
HOSTS_VARIABLE = "ACCELOPT_LLM_HOSTS"
DEFAULT_URL = "https://api.openai.com/v1"

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class LlmSettingsError(ValueError):
    """A setting that cannot be used. The message names it and says what is expected."""


@frozen(slots=True)
class ModelSettings:
    """One role's model.

    Attributes:
        model: its name at the endpoint; ``offline`` takes the catalogue of rewrites instead.
        base_url: the endpoint, up to and including ``/v1``.
        temperature: None leaves it to the endpoint.
        reasoning_effort: ``low``, ``medium``, ``high`` or what else the model knows; None
            leaves it out.
        max_output_tokens: of one reply; None leaves it to the endpoint.
        context_tokens: of the model; prompts are written to fit. None leaves them whole, and
            one that the endpoint finds too long is written again, shorter.
        timeout_seconds: without a sign of life from the endpoint.
        reply_seconds: from a request to the end of its reply.
        retries: of a request that failed for a passing reason.
        price_input, price_cached_input, price_output: dollars for a million tokens; None is
            unknown.
        from_project: the endpoint was named by the project, not by the user.
    """

    model: str = ""
    base_url: str = DEFAULT_URL
    temperature: float | None = None
    reasoning_effort: str | None = None
    max_output_tokens: int | None = None
    context_tokens: int | None = None
    timeout_seconds: float = 300.0
    reply_seconds: float = 1800.0
    retries: int = 5
    price_input: float | None = None
    price_cached_input: float | None = None
    price_output: float | None = None
    from_project: bool = False

    @property
    def is_offline(self) -> bool:
        return self.model == OFFLINE

    @property
    def is_local(self) -> bool:
        """The endpoint is on this machine."""
        return (urlsplit(self.base_url).hostname or "") in _LOOPBACK

    @property
    def shown_url(self) -> str:
        """The endpoint for people and records: without a query, which may hold a key."""
        return self.base_url.partition("?")[0]

    def prompt_tokens(self, context: int | None) -> int | None:
        """Room for a prompt in a context of so many tokens, beside the reply; None if unknown."""
        if context is None:
            return None
        return max(context - (self.max_output_tokens or context // 3), context // 4)

    @property
    def has_prices(self) -> bool:
        return self.price_input is not None and self.price_output is not None

    def cost(self, prompt: int, cached: int, completion: int) -> float | None:
        """Dollars for one reply's tokens (``cached`` are part of ``prompt``); None if unknown."""
        if self.price_input is None or self.price_output is None:
            return None
        again = self.price_input if self.price_cached_input is None else self.price_cached_input
        fresh = max(0, prompt - cached)
        return (fresh * self.price_input + cached * again + completion * self.price_output) * 1e-6

    def api_key(self, environment: Mapping[str, str] | None = None) -> str | None:
        """The key for this endpoint, or None.

        A project may name an endpoint, but not send the user's key to it: that takes
        ``ACCELOPT_LLM_HOSTS`` with the endpoint's host, unless it is on this machine. A key that
        is for one host goes to no other.
        """
        env = os.environ if environment is None else environment
        host = (urlsplit(self.base_url).hostname or "").lower()
        if env.get(KEY_HOST_VARIABLE, host).lower() != host:
            return None
        if self.from_project and not self.is_local:
            allowed = {h.strip().lower() for h in env.get(HOSTS_VARIABLE, "").split(",")}
            if host not in allowed:
                return None
        return next((key for name in KEY_VARIABLES if (key := env.get(name, "").strip())), None)


@frozen(slots=True)
class LlmSettings:
    """Models of all roles, and the limits of a run.

    Attributes:
        planner, executor, fixer, summarizer: see :class:`ModelSettings`.
        concurrency: requests at once, over all roles.
        budget_usd, budget_tokens: of a run; None for no limit.
    """

    planner: ModelSettings = ModelSettings()
    executor: ModelSettings = ModelSettings()
    fixer: ModelSettings = ModelSettings()
    summarizer: ModelSettings = ModelSettings()
    concurrency: int = 8
    budget_usd: float | None = None
    budget_tokens: int | None = None

    def of(self, role: str) -> ModelSettings:
        """Settings of a role by its name."""
        found: ModelSettings = getattr(self, role)
        return found

    def check(self) -> None:
        """Refuse what cannot work before the first request.

        Raises:
            LlmSettingsError: a role has no model, or a limit in dollars has no prices.
        """
        for role in ROLES:
            settings = self.of(role)
            if not settings.model:
                raise LlmSettingsError(
                    f"no model for the {role}: give --model (accelopt.llm.model in an editor), "
                    f'set {MODEL_VARIABLE}, or write model = "..." into [tool.accelopt.llm] of '
                    "pyproject.toml"
                )
            if self.budget_usd is not None and not settings.is_offline and not settings.has_prices:
                raise LlmSettingsError(
                    f"a limit in dollars needs the prices of {settings.model!r}: set price-input "
                    "and price-output (dollars for a million tokens) in [tool.accelopt.llm], or "
                    "limit tokens with --budget-tokens"
                )


_COMMON = frozenset({"concurrency", "budget_usd", "budget_tokens"})
_TEXT = frozenset({"model", "base_url", "reasoning_effort"})
_WHOLE = frozenset(
    {"max_output_tokens", "context_tokens", "retries", "concurrency", "budget_tokens"}
)
_ABOVE_ZERO = frozenset({"timeout_seconds", "reply_seconds", "budget_usd"})
_MODEL_FIELDS = frozenset(f.name for f in fields(ModelSettings)) - {"from_project"}


def llm_settings(
    table: Mapping[str, Any] | None = None,
    given: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> LlmSettings:
    """Settings from a project's table, the environment, and a caller.

    Args:
        table: ``[tool.accelopt.llm]``; names with dashes or underscores.
        given: values that win, for all roles; such as ``planner_model``, or a table named
            ``planner``, for one; None values are skipped.
        environment: variables; None takes the process's.

    Raises:
        LlmSettingsError: an unknown name or a value of the wrong type.
    """
    env = os.environ if environment is None else environment
    base: dict[str, Any] = {}
    common: dict[str, Any] = {}
    by_role: dict[str, dict[str, Any]] = {role: {} for role in ROLES}
    for raw, value in (table or {}).items():
        name = raw.replace("-", "_")
        if name in by_role:
            by_role[name] = _role_table(name, value)
        elif name in _COMMON:
            common[name] = _convert(name, value)
        elif name in _MODEL_FIELDS:
            base[name] = _convert(name, value)
        else:
            raise _unknown(raw, "in [tool.accelopt.llm]")
    users: dict[str, Any] = {}
    only: dict[str, dict[str, Any]] = {role: {} for role in ROLES}
    url = next((env[name] for name in URL_VARIABLES if env.get(name)), None)
    if url is not None:
        users["base_url"] = _convert("base_url", url)
    if env.get(MODEL_VARIABLE):
        users["model"] = env[MODEL_VARIABLE]
    for name, value in (given or {}).items():
        if value is None:
            continue
        role, _, rest = name.partition("_")
        if name in only:
            only[name] |= _role_table(name, value)
        elif role in only and rest == "model":
            only[role]["model"] = _convert(rest, value)
        elif name in _COMMON:
            common[name] = _convert(name, value)
        elif name in _MODEL_FIELDS:
            users[name] = _convert(name, value)
        else:
            raise _unknown(name, "")
    roles = {role: _model(base, by_role[role], users, only[role]) for role in ROLES}
    return LlmSettings(
        planner=roles["planner"],
        executor=roles["executor"],
        fixer=roles["fixer"],
        summarizer=roles["summarizer"],
        **common,
    )


def _role_table(role: str, value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"model": value}
    if not isinstance(value, Mapping):
        raise LlmSettingsError(f"{role} in [tool.accelopt.llm] must be a model's name or a table")
    found = {}
    for raw, item in value.items():
        name = raw.replace("-", "_")
        if name not in _MODEL_FIELDS:
            raise _unknown(raw, f"of the {role}")
        found[name] = _convert(name, item)
    return found


def _unknown(name: str, where: str) -> LlmSettingsError:
    if "key" in name.lower():
        return LlmSettingsError(
            f"{name} cannot be set here: keys come from {KEY_VARIABLES[0]} or {KEY_VARIABLES[1]} "
            "in the environment, or from the editor's secret store"
        )
    known = ", ".join(sorted(n.replace("_", "-") for n in _MODEL_FIELDS | _COMMON))
    place = f" {where}" if where else ""
    return LlmSettingsError(
        f"unknown setting {name!r}{place}; known: {known}, and tables for {', '.join(ROLES)}"
    )


def _model(
    base: Mapping[str, Any],
    role: Mapping[str, Any],
    users: Mapping[str, Any],
    only: Mapping[str, Any],
) -> ModelSettings:
    """A role's own table wins over what the user says for all roles, but for the endpoint.

    So ``planner = "offline"`` holds with ``--model``; where requests go is the user's word.
    What the user says for this role alone (``only``) wins over all.
    """
    values = {**base, **users, **role}
    if "base_url" in users:
        values["base_url"] = users["base_url"]
    by_user = "base_url" in users or "base_url" in only
    from_project = not by_user and "base_url" in values
    return ModelSettings(**{**values, **only}, from_project=from_project)


def _convert(name: str, value: Any) -> Any:
    shown = name.replace("_", "-")
    if name in _TEXT:
        if not isinstance(value, str) or not value.strip():
            raise LlmSettingsError(f"{shown} must be a text, got {value!r}")
        return endpoint(value) if name == "base_url" else value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise LlmSettingsError(f"{shown} must be a number, got {value!r}")
    if name in _WHOLE and (not isinstance(value, int) or value < (0 if name == "retries" else 1)):
        raise LlmSettingsError(f"{shown} must be a positive whole number, got {value!r}")
    if not abs(value) <= sys.float_info.max:  # isfinite fails where float does
        raise LlmSettingsError(f"{shown} must be a finite number, got {value!r}")
    if value < 0:
        raise LlmSettingsError(f"{shown} must not be negative, got {value!r}")
    if name in _ABOVE_ZERO and value == 0:
        raise LlmSettingsError(f"{shown} must be above 0")
    return value if name in _WHOLE else float(value)


def endpoint(url: str) -> str:
    """The base of an OpenAI-compatible API from what people write for it.

    ``http://localhost:8000`` gains ``/v1``; a trailing ``/chat/completions`` is dropped, a
    query (``?api-version=...``) stays.

    Raises:
        LlmSettingsError: not an http or https URL, or one with a password in it.
    """
    text = url.strip()
    # What stands in front of the host may be a password.
    shown = text.rpartition("@")[2]
    wrong = LlmSettingsError(f"not the URL of an endpoint: {shown!r}; expected http://HOST/v1")
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        raise wrong from None
    if not usable:
        raise wrong
    if parts.username is not None or parts.password is not None:
        raise LlmSettingsError(
            f"the URL of {parts.hostname} holds a user or a password; put a key into "
            f"{KEY_VARIABLES[0]} instead"
        )
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    return urlunsplit((parts.scheme, parts.netloc, path or "/v1", parts.query, ""))


__all__ = [
    "LlmSettings",
    "LlmSettingsError",
    "ModelSettings",
    "endpoint",
    "llm_settings",
]
