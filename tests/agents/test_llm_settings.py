"""Where models, endpoints, prices and keys come from, and where keys go."""

from __future__ import annotations

import pytest

from accelopt_lsp.agents.llm.settings import LlmSettingsError, endpoint, llm_settings

NOTHING: dict[str, str] = {}


def test_a_url_and_a_model_are_enough() -> None:
    settings = llm_settings(None, {"base_url": "http://localhost:8000", "model": "m"}, NOTHING)
    settings.check()
    assert settings.planner.base_url == "http://localhost:8000/v1"
    assert settings.planner == settings.executor == settings.fixer == settings.summarizer


URLS = {
    "http://localhost:8000": "http://localhost:8000/v1",
    "http://localhost:8000/": "http://localhost:8000/v1",
    "localhost:11434": "http://localhost:11434/v1",
    "https://api.example.com/v1/chat/completions": "https://api.example.com/v1",
    "https://api.example.com/openai/v2/": "https://api.example.com/openai/v2",
    " http://[::1]:8000/v1 ": "http://[::1]:8000/v1",
    "https://r.openai.azure.com/openai/deployments/d/chat/completions?api-version=2024-10-21": (
        "https://r.openai.azure.com/openai/deployments/d?api-version=2024-10-21"
    ),
}


@pytest.mark.parametrize(("given", "expected"), URLS.items())
def test_endpoints_as_people_write_them(given: str, expected: str) -> None:
    assert endpoint(given) == expected


NO_URLS = (
    "ftp://host/v1",
    "http://",
    "file:///etc/passwd",
    "http:///v1",
    "http://host:port/v1",
    "http://[::1",
    "http://host:99999",
)


@pytest.mark.parametrize("given", NO_URLS)
def test_what_is_no_endpoint(given: str) -> None:
    with pytest.raises(LlmSettingsError, match="not the URL"):
        endpoint(given)


def test_later_places_win() -> None:
    table = {
        "model": "project",
        "temperature": 0.5,
        "planner": {"model": "big", "reasoning-effort": "high"},
        "fixer": "offline",
    }
    env = {"ACCELOPT_LLM_MODEL": "environment"}
    settings = llm_settings(table, {"model": "given", "summarizer_model": "small"}, env)
    assert settings.planner.model == "big"
    assert settings.planner.reasoning_effort == "high"
    assert settings.planner.temperature == 0.5
    assert settings.executor.model == "given"
    assert settings.fixer.is_offline
    assert settings.summarizer.model == "small"
    assert llm_settings(table, None, env).executor.model == "environment"
    assert llm_settings(table, None, NOTHING).executor.model == "project"


BROKEN = {
    "unknown setting 'modle'": {"modle": "m"},
    "temperature must be a number": {"temperature": "hot"},
    "price-input must not be negative": {"price-input": -1},
    "max-output-tokens must be a positive whole number": {"max-output-tokens": 0.5},
    "model must be a text": {"model": ""},
    "planner in": {"planner": 3},
    "unknown setting 'x' of the fixer": {"fixer": {"x": 1}},
    "concurrency must be a positive whole number": {"concurrency": 0},
    "budget-usd must be a finite number": {"budget-usd": float("nan")},
    "price-output must be a finite number": {"price-output": float("inf")},
    "reply-seconds must be above 0": {"reply-seconds": 0},
    "holds a user or a password": {"base-url": "http://user:secret@host/v1"},
    r"not the URL of an endpoint: 'host:port": {"base-url": "http://user:secret@host:port/v1"},
    "retries must be a positive whole number": {"retries": True},
}


@pytest.mark.parametrize(("message", "table"), BROKEN.items())
def test_settings_that_cannot_be_used(message: str, table: dict[str, object]) -> None:
    if message.startswith("retries"):
        message = "retries must be a number"
    with pytest.raises(LlmSettingsError, match=message) as caught:
        llm_settings(table, None, NOTHING)
    assert "secret" not in str(caught.value)


def test_no_model_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(LlmSettingsError, match="--model"):
        llm_settings(None, None, NOTHING).check()


def test_costs() -> None:
    given = {"model": "m", "price_input": 2.0, "price_output": 10.0}
    model = llm_settings(None, given, NOTHING).planner
    assert model.cost(1_000_000, 0, 100_000) == pytest.approx(3.0)
    assert model.cost(1_000_000, 500_000, 0) == pytest.approx(2.0)
    cached = llm_settings(None, {**given, "price_cached_input": 0.5}, NOTHING).planner
    assert cached.cost(1_000_000, 500_000, 0) == pytest.approx(1.25)
    assert llm_settings(None, {"model": "m"}, NOTHING).planner.cost(10, 0, 10) is None


KEY = {"ACCELOPT_LLM_API_KEY": "secret"}
EVIL = "https://collects-keys.example/v1"


def test_keys_go_where_the_user_sends_them() -> None:
    assert llm_settings(None, {"base_url": EVIL}, KEY).planner.api_key(KEY) == "secret"
    env = {**KEY, "ACCELOPT_LLM_BASE_URL": EVIL}
    assert llm_settings(None, None, env).planner.api_key(env) == "secret"
    assert llm_settings(None, None, NOTHING).planner.api_key(KEY) == "secret"
    assert llm_settings(None, None, NOTHING).planner.api_key({"OPENAI_API_KEY": "k"}) == "k"
    assert llm_settings(None, None, NOTHING).planner.api_key(NOTHING) is None


@pytest.mark.parametrize("table", [{"base-url": EVIL}, {"planner": {"base-url": EVIL}}])
def test_a_project_cannot_send_the_users_key_anywhere(table: dict[str, object]) -> None:
    planner = llm_settings(table, {"model": "m"}, KEY).planner
    assert planner.base_url == EVIL
    assert planner.api_key(KEY) is None
    trusted = {**KEY, "ACCELOPT_LLM_HOSTS": "other.example, collects-keys.example"}
    assert planner.api_key(trusted) == "secret"
    assert llm_settings(table, {"base_url": "http://mine/v1"}, KEY).planner.base_url != EVIL


def test_a_key_for_one_host_goes_to_no_other() -> None:
    env = {**KEY, "ACCELOPT_LLM_KEY_HOST": "Mine.example"}
    assert llm_settings(None, {"base_url": "https://mine.example/v1"}, env).planner.api_key(env)
    assert llm_settings(None, {"base_url": EVIL}, env).planner.api_key(env) is None
    one = llm_settings(None, {"planner": {"base_url": EVIL}}, env)
    assert one.planner.base_url == EVIL
    assert one.planner.api_key(env) is None


def test_a_project_may_name_an_endpoint_on_this_machine() -> None:
    table = {"base-url": "http://localhost:8000/v1"}
    assert llm_settings(table, None, KEY).planner.api_key(KEY) == "secret"
