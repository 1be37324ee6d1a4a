"""Look at the endpoints of models: is somebody there, with these models, and does one answer?"""

from __future__ import annotations

import time
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from attrs import evolve

from accelopt_lsp.agents.llm.settings import (
    KEY_VARIABLES,
    ROLES,
    LlmSettings,
    LlmSettingsError,
    ModelSettings,
    llm_settings,
)
from accelopt_lsp.agents.roles import RoleFailure
from accelopt_lsp.workbench.doctor import Finding
from accelopt_lsp.workbench.settings import SettingsError, other_table

PATIENCE_SECONDS = 10.0
"""To be listed models; a model itself may take longer."""
_STARTERS = {
    11434: "start Ollama with `ollama serve`",
    8000: "start vLLM with `vllm serve MODEL`",
    8080: "start llama.cpp with `llama-server -m MODEL.gguf`",
    30000: "start SGLang with `python -m sglang.launch_server --model-path MODEL`",
}


async def examine_endpoints(
    path: Path, given: Mapping[str, Any], *, ask: bool = False
) -> tuple[Finding, ...]:
    """Check the models that an optimization of ``path`` would use. Never raises.

    Args:
        path: a file or folder, whose project may name models.
        given: settings that win; None values are skipped.
        ask: also have each model answer a short request.
    """
    try:
        settings = llm_settings(other_table(path, "llm"), given)
    except (LlmSettingsError, SettingsError) as error:
        return (Finding("models", False, str(error)),)
    named = [role for role in ROLES if settings.of(role).model and not settings.of(role).is_offline]
    if not named and not given.get("base_url"):
        return (
            Finding("models", None, "none configured; optimize uses the catalogue of rewrites"),
        )
    found: list[Finding] = []
    looked: set[tuple[str, str]] = set()
    for role in named or ROLES[:1]:
        model = settings.of(role)
        if (model.base_url, model.model) in looked:
            continue
        looked.add((model.base_url, model.model))
        listed = await _listed(model)
        found.append(listed)
        if ask and model.model and listed.ok is not False:
            found.append(await _answer(settings, role))
    return tuple(found)


async def _listed(model: ModelSettings) -> Finding:
    """Whether the endpoint is there and lists the model."""
    from accelopt_lsp.agents.llm.http import EndpointError, list_models

    name = f"models at {model.shown_url}"
    try:
        models = await list_models(evolve(model, timeout_seconds=PATIENCE_SECONDS))
    except EndpointError as error:
        if error.status in (404, 405, 501):
            return Finding(name, None, f"reachable, but lists no models ({error}); try --ask")
        return Finding(name, False, f"{error}{_advice(model, error.status)}")
    if not model.model:
        return Finding(name, True, f"reachable; models: {_names(models)}; choose one with --model")
    if model.model in models or f"{model.model}:latest" in models:
        return Finding(name, True, f"reachable, has {model.model}")
    near = get_close_matches(model.model, models, 3, 0.4) or models
    return Finding(name, False, f"reachable, but has no {model.model}; it has: {_names(near)}")


def _names(models: list[str]) -> str:
    more = f" and {len(models) - 10} others" if len(models) > 10 else ""
    return (", ".join(models[:10]) or "none") + more


def _advice(model: ModelSettings, status: int | None) -> str:
    from urllib.parse import urlsplit

    if status in (401, 403):
        if model.api_key() is None:
            return f"; no key was sent: set {KEY_VARIABLES[0]}"
        return f"; the key in {KEY_VARIABLES[0]} or {KEY_VARIABLES[1]} was refused"
    if status is not None:
        return "; is the URL right?"
    start = _STARTERS.get(urlsplit(model.base_url).port or 0) if model.is_local else None
    return f"; {start or 'is the server running, and is its URL right?'}"


async def _answer(settings: LlmSettings, role: str) -> Finding:
    """Whether a model answers; costs a few tokens."""
    from accelopt_lsp.agents.llm.client import ChatModels
    from accelopt_lsp.agents.llm.faults import LlmError

    model = evolve(settings.of(role), max_output_tokens=16, retries=1)
    name = f"{model.model} answers"
    notes: list[str] = []
    only: dict[str, Any] = {role: model}
    chat = ChatModels(evolve(settings, **only), note=notes.append)
    begun = time.monotonic()
    try:
        await chat.ask(role, ({"role": "user", "content": "Say yes."},))
        said = "replied"
    except LlmError as error:
        if "length limit" not in str(error):
            return Finding(name, False, str(error))
        said = "thought, as it should,"
    except RoleFailure as error:
        return Finding(name, False, str(error))
    finally:
        await chat.close()
    usage = chat.ledger.of(role)
    counts = "counts tokens" if usage.tokens is not None else "counts no tokens: sums stay unknown"
    detail = f"{said} in {time.monotonic() - begun:.1f} s, {counts}"
    return Finding(name, True, "; ".join([detail, *notes]))
