"""One place that talks to OpenAI-compatible endpoints: streams, retries, limits, records."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field, frozen

from accelopt_lsp.agents.llm.ledger import Ledger, Spent
from accelopt_lsp.agents.llm.settings import LlmSettings, ModelSettings
from accelopt_lsp.agents.roles import RoleFailure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from openai import AsyncOpenAI

MAX_REPLY_CHARS = 400_000
"""A longer reply is cut off: no kernel is that long, and a model that loops costs money."""
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
CHARS_PER_TOKEN = 3.5
"""To estimate tokens where the endpoint does not count them; code has short tokens."""
_FINAL_STATUS = frozenset({401, 402, 403, 404})
_PASSING_STATUS = frozenset({408, 409, 425, 429})
_TRANSPORT = ("httpx", "httpcore", "h11", "h2", "anyio", "openai")
_OPTIONAL = ("stream_options", "reasoning_effort", "temperature", "seed", "max_tokens")

Message = Mapping[str, str]


class LlmError(Exception):
    """One request got no usable reply; others may. The message says why."""


class _Passing(Exception):  # noqa: N818 - asks for another try
    """Worth another try, after ``wait`` seconds if the endpoint said so."""

    def __init__(self, why: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait = wait


@frozen(slots=True)
class Exchange:
    """A request and its reply, as kept and replayed. No key is in it.

    Attributes:
        key: names the request within a run: a hash of all that was asked, and how often it
            had been asked before.
        role, model: who asked whom.
        messages: what was asked.
        reply: what came back; None if nothing usable did.
        finish: the endpoint's ``finish_reason``.
        spent: tokens and dollars.
        seconds: from the first try to the end.
        errors: why earlier tries failed.
    """

    key: str
    role: str
    model: str
    messages: tuple[Message, ...]
    reply: str | None
    finish: str | None = None
    spent: Spent = Spent()
    seconds: float = 0.0
    errors: tuple[str, ...] = ()


@define(slots=True)
class Recorder:
    """Where exchanges are kept and found again.

    Attributes:
        find: the exchange of a key, if this run (or the one that is replayed) had it.
        save: keeps one.
        live: whether requests may be sent at all; a replay sends none.
    """

    find: Callable[[str], Exchange | None] = lambda key: None
    save: Callable[[Exchange], None] = lambda exchange: None
    live: bool = True


@frozen(slots=True)
class Reply:
    """Text of a reply; ``cut`` if the endpoint or a limit ended it early."""

    text: str
    cut: bool = False


@define(slots=True)
class _Stream:
    """What has arrived of one reply."""

    parts: list[str] = field(factory=list)
    length: int = 0
    finish: str | None = None
    usage: Any = None
    chunks: int = 0

    def take(self, text: str | None) -> None:
        if text:
            self.parts.append(text)
            self.length += len(text)

    @property
    def text(self) -> str:
        return "".join(self.parts)


class ChatModels:
    """The endpoints of one run.

    Args:
        settings: models and limits.
        recorder: keeps exchanges, and gives those that a run already had.
        environment: where keys are looked up; None takes the process's variables.
        first_wait: seconds before the first retry; doubles with each. None takes a second.
        on_text: told the role and the characters that have arrived, for progress.
    """

    def __init__(
        self,
        settings: LlmSettings,
        recorder: Recorder | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        first_wait: float | None = None,
        on_text: Callable[[str, int], None] | None = None,
    ) -> None:
        self.settings = settings
        self.ledger = Ledger(settings.budget_usd, settings.budget_tokens)
        self.on_text = on_text
        self._recorder = recorder or Recorder()
        self._environment = environment
        self._first_wait = FIRST_WAIT_S if first_wait is None else first_wait
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._clients: dict[tuple[str, str | None, float], AsyncOpenAI] = {}
        self._asked: Counter[str] = Counter()
        self._refused: dict[tuple[str, str], set[str]] = {}
        self._answered = False

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    async def ask(self, role: str, messages: Sequence[Message], *, seed: int = 0) -> Reply:
        """The reply of a role's model.

        Raises:
            LlmError: this request got no usable reply.
            RoleFailure: no request of this run will (wrong key, no such model, no server).
            OutOfBudget: a limit on tokens or dollars is reached.
        """
        model = self.settings.of(role)
        base = request_key(role, model, messages, seed)
        key = f"{base}-{self._asked[base]}"
        self._asked[base] += 1
        known = self._recorder.find(key)
        if known is not None:
            self.ledger.add(role, known.model, known.spent)
            return _usable(known)
        if not self._recorder.live:
            raise RoleFailure(
                f"the replayed run has no reply to this request of the {role}: kernel, settings, "
                "prompts or package version are not those of the recording"
            )
        async with self._slots:
            self.ledger.check()
            exchange = await self._exchange(key, role, model, messages, seed)
        self.ledger.add(role, model.model, exchange.spent)
        self._recorder.save(exchange)
        return _usable(exchange)

    async def _exchange(
        self, key: str, role: str, model: ModelSettings, messages: Sequence[Message], seed: int
    ) -> Exchange:
        """One request with its retries; what failed for good is an exchange without reply."""
        begun = time.monotonic()
        errors: list[str] = []
        wasted = Spent(cost_usd=0.0 if model.has_prices else None)
        for attempt in range(model.retries + 1):
            stream = _Stream()
            try:
                await self._send(role, model, messages, seed, stream)
                if not stream.text.strip():
                    raise _Passing("the reply is empty")
                if stream.finish is None and self._may_be_cut(model, attempt):
                    raise _Passing("the reply broke off")
            except LlmError as error:
                errors.append(str(error))
                break
            except _Passing as passing:
                errors.append(self._redacted(model, str(passing)))
                wasted = _sum(wasted, _spent(model, messages, stream)) if stream.chunks else wasted
                if attempt < model.retries:
                    await asyncio.sleep(self._wait(attempt, passing.wait))
                continue
            self._answered = True
            return Exchange(
                key,
                role,
                model.model,
                tuple(messages),
                stream.text,
                stream.finish,
                _sum(wasted, _spent(model, messages, stream)),
                time.monotonic() - begun,
                tuple(errors),
            )
        why = errors[-1] if errors else "no reply"
        if not self._answered and not wasted.tokens:
            raise RoleFailure(
                f"{model.base_url} gave no reply in {model.retries + 1} tries: {why}; is the "
                "endpoint running, and is its URL right?"
            )
        seconds = time.monotonic() - begun
        return Exchange(
            key, role, model.model, tuple(messages), None, None, wasted, seconds, tuple(errors)
        )

    def _may_be_cut(self, model: ModelSettings, attempt: int) -> bool:
        """Whether a reply without ``finish_reason`` broke off.

        An endpoint that never sends one is believed after it was asked often enough.
        """
        refused = self._refused[model.base_url, model.model]
        if attempt == model.retries:
            refused.add("finish_reason")
        return "finish_reason" not in refused

    def _wait(self, attempt: int, asked: float | None) -> float:
        """Seconds before the next try: what the endpoint asks for, else doubling, with jitter."""
        if asked is not None:
            return min(asked, LONGEST_WAIT_S)
        longest: float = min(self._first_wait * 2.0**attempt, LONGEST_WAIT_S)
        return longest * random.uniform(0.5, 1.0)

    # -- one try ----------------------------------------------------------------------

    async def _send(
        self,
        role: str,
        model: ModelSettings,
        messages: Sequence[Message],
        seed: int,
        stream: _Stream,
    ) -> None:
        """Send a request and collect its reply into ``stream``.

        Parameters that an endpoint refuses by name are left out from then on.
        """
        import openai

        refused = self._refused.setdefault((model.base_url, model.model), set())
        while True:
            options = _options(model, seed, refused)
            try:
                await self._collect(role, model, messages, options, stream)
                return
            except openai.APIStatusError as error:
                unwanted = _unwanted(error, options)
                if unwanted is None:
                    raise self._judged(model, error) from error
                refused.add(unwanted)
            except (openai.APIError, OSError, ValueError) as error:
                raise _Passing(_sentence(error)) from error
            except Exception as error:
                if not type(error).__module__.startswith(_TRANSPORT):
                    raise
                raise _Passing(_sentence(error)) from error

    async def _collect(
        self,
        role: str,
        model: ModelSettings,
        messages: Sequence[Message],
        options: dict[str, Any],
        stream: _Stream,
    ) -> None:
        client = self._client(model)
        request: dict[str, Any] = {"model": model.model, "messages": list(messages), **options}
        if not options.get("stream"):
            _take_whole(stream, await client.chat.completions.create(**request))
            return
        reply: AsyncIterator[Any] = await client.chat.completions.create(**request)
        try:
            async for chunk in reply:
                _take_chunk(stream, chunk)
                if self.on_text is not None:
                    self.on_text(role, stream.length)
                if stream.length > MAX_REPLY_CHARS:
                    stream.finish = "length"
                    break
        finally:
            await reply.close()  # type: ignore[attr-defined]
        if not stream.chunks:
            # Some servers ignore ``stream`` and send one object, which a stream cannot read.
            self._refused[model.base_url, model.model].add("stream")
            raise _Passing("the endpoint does not stream")

    def _client(self, model: ModelSettings) -> AsyncOpenAI:
        from openai import AsyncOpenAI

        api_key = model.api_key(self._environment)
        identity = (model.base_url, api_key, model.timeout_seconds)
        found = self._clients.get(identity)
        if found is None:
            found = self._clients[identity] = AsyncOpenAI(
                base_url=model.base_url,
                # Local servers want none, the client insists on one.
                api_key=api_key or "none",
                timeout=model.timeout_seconds,
                max_retries=0,
            )
        return found

    def _judged(self, model: ModelSettings, error: Any) -> Exception:
        """What an HTTP error means for this request and this run."""
        status = error.status_code
        why = self._redacted(model, f"{status} from {model.base_url}: {_sentence(error)}")
        if status in _FINAL_STATUS or getattr(error, "code", None) == "insufficient_quota":
            return RoleFailure(f"{why}{self._advice(model, status)}")
        if status in _PASSING_STATUS or status >= 500:
            return _Passing(why, _retry_after(error))
        return LlmError(why)

    def _advice(self, model: ModelSettings, status: int) -> str:
        if status not in (401, 403):
            return f"; is {model.model!r} a model of this endpoint?" if status == 404 else ""
        if model.api_key(self._environment) is not None:
            return "; the API key was refused"
        if model.from_project:
            return (
                "; no key was sent, since the project names this endpoint: set "
                "ACCELOPT_LLM_HOSTS to its host if you trust it with your key"
            )
        return "; set ACCELOPT_LLM_API_KEY"

    def _redacted(self, model: ModelSettings, text: str) -> str:
        key = model.api_key(self._environment)
        return text.replace(key, "***") if key else text


def request_key(role: str, model: ModelSettings, messages: Sequence[Message], seed: int) -> str:
    """Hash of who asks which model what; how the model was set plays no part in finding it."""
    asked = [role, model.model, seed, list(messages)]
    text = json.dumps(asked, sort_keys=True, ensure_ascii=True, default=dict)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def _usable(exchange: Exchange) -> Reply:
    if exchange.reply is None:
        why = exchange.errors[-1] if exchange.errors else "no reply"
        raise LlmError(f"no usable reply from {exchange.model}: {why}")
    return Reply(exchange.reply, exchange.finish not in ("stop", None))


def _options(model: ModelSettings, seed: int, refused: set[str]) -> dict[str, Any]:
    options: dict[str, Any] = {"seed": seed}
    if "stream" not in refused:
        options |= {"stream": True, "stream_options": {"include_usage": True}}
    if model.temperature is not None:
        options["temperature"] = model.temperature
    if model.reasoning_effort is not None:
        options["reasoning_effort"] = model.reasoning_effort
    if model.max_output_tokens is not None:
        # Newer models know the second name only, most servers the first.
        name = "max_completion_tokens" if "max_tokens" in refused else "max_tokens"
        options[name] = model.max_output_tokens
    return {name: value for name, value in options.items() if name not in refused}


def _unwanted(error: Any, options: Mapping[str, Any]) -> str | None:
    """The optional parameter that an endpoint refuses, if that is what an error says."""
    if error.status_code not in (400, 422):
        return None
    text = _sentence(error).lower()
    return next((name for name in _OPTIONAL if name in options and name in text), None)


def _take_chunk(stream: _Stream, chunk: Any) -> None:
    stream.chunks += 1
    stream.usage = getattr(chunk, "usage", None) or stream.usage
    for choice in getattr(chunk, "choices", None) or ():
        delta = getattr(choice, "delta", None)
        content = getattr(delta, "content", None)
        stream.take(content if isinstance(content, str) else None)
        stream.finish = getattr(choice, "finish_reason", None) or stream.finish


def _take_whole(stream: _Stream, reply: Any) -> None:
    stream.chunks += 1
    stream.usage = getattr(reply, "usage", None)
    for choice in (getattr(reply, "choices", None) or ())[:1]:
        content = getattr(getattr(choice, "message", None), "content", None)
        text = content if isinstance(content, str) else ""
        stream.take(text[:MAX_REPLY_CHARS])
        stream.finish = getattr(choice, "finish_reason", None) or "stop"


def _spent(model: ModelSettings, messages: Sequence[Message], stream: _Stream) -> Spent:
    """Tokens of one reply: the endpoint's count, else an estimate from the lengths."""
    prompt = _count(stream.usage, "prompt_tokens")
    completion = _count(stream.usage, "completion_tokens")
    details = getattr(stream.usage, "prompt_tokens_details", None)
    cached = min(_count(details, "cached_tokens") or 0, prompt or 0)
    counted = prompt is not None and completion is not None
    if prompt is None or completion is None:
        prompt = _estimate(sum(len(m["content"]) for m in messages))
        completion, cached = _estimate(stream.length), 0
    return Spent(prompt, cached, completion, model.cost(prompt, cached, completion), counted)


def _count(usage: Any, name: str) -> int | None:
    value = getattr(usage, name, None)
    return value if isinstance(value, int) and value >= 0 else None


def _estimate(chars: int) -> int:
    return round(chars / CHARS_PER_TOKEN)


def _sum(first: Spent, second: Spent) -> Spent:
    known = first.cost_usd is not None and second.cost_usd is not None
    return evolve(
        first,
        prompt=first.prompt + second.prompt,
        cached=first.cached + second.cached,
        completion=first.completion + second.completion,
        cost_usd=(first.cost_usd or 0.0) + (second.cost_usd or 0.0) if known else None,
        counted=first.counted and second.counted,
    )


def _retry_after(error: Any) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            value = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if value >= 0:
            return value
    return None


def _sentence(error: BaseException) -> str:
    """An error in one line of bounded length."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 500 else f"{text[:500]}..."
