"""One place that talks to OpenAI-compatible endpoints: streams, retries, limits, records."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field, frozen

from accelopt_lsp.agents.llm.faults import (
    LlmError,
    Passing,
    TooLong,
    asked_wait,
    judged,
    names_no_model,
    one_line,
    refused_parameter,
    told,
)
from accelopt_lsp.agents.llm.ledger import Ledger, Spent, spent_on
from accelopt_lsp.agents.llm.prompts import VERSION
from accelopt_lsp.agents.llm.settings import LlmSettings, ModelSettings
from accelopt_lsp.agents.llm.wire import Received, read_reply
from accelopt_lsp.agents.roles import RoleFailure

if TYPE_CHECKING:
    from openai import AsyncOpenAI

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
ANSWER_TRIES = 3
"""Tries at a request whose answers are unusable: each of them is paid for."""
FIRST_CONTACT_TRIES = 2
"""Tries at an endpoint that was never there: somebody waits for its URL to be put right."""
LEAST_CHARS_PER_TOKEN = 7.0
"""An endpoint that counts fewer tokens in a prompt than this makes has not read all of it."""
_TRANSPORT = ("httpx", "httpcore", "h11", "h2", "anyio", "openai")

Message = Mapping[str, str]


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
        spent: tokens and dollars, of all tries.
        seconds: from the first try to the end.
        errors: why earlier tries failed.
        too_long: the prompt did not fit the model's context.
        context: tokens of that context, if the endpoint named them.
        prompts: version of the templates.
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
    too_long: bool = False
    context: int | None = None
    prompts: int = VERSION

    @property
    def never_answered(self) -> bool:
        """The endpoint was out of order: a resumed run asks again."""
        return self.reply is None and not self.too_long and not self.spent.calls


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
class _Manners:
    """What one model of one endpoint has turned out to want.

    Attributes:
        refused: parameters that it does not take, and ``system`` for messages of that role.
        marks_no_end: it never says that a reply is whole.
    """

    refused: set[str] = field(factory=set)
    marks_no_end: bool = False


class ChatModels:
    """The endpoints of one run.

    Args:
        settings: models and limits.
        recorder: keeps exchanges, and gives those that a run already had.
        environment: where keys are looked up; None takes the process's variables.
        first_wait: seconds before the first retry; doubles with each. None takes a second.
        note: told, once each, what the user should know about an endpoint.
        on_text: told the role and the characters that have arrived, for progress.
    """

    def __init__(
        self,
        settings: LlmSettings,
        recorder: Recorder | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        first_wait: float | None = None,
        note: Callable[[str], None] | None = None,
        on_text: Callable[[str, int], None] | None = None,
    ) -> None:
        self.settings = settings
        self.ledger = Ledger(settings.budget_usd, settings.budget_tokens)
        self._note = note
        self._on_text = on_text
        self._recorder = recorder or Recorder()
        self._environment = environment
        self._first_wait = FIRST_WAIT_S if first_wait is None else first_wait
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._clients: dict[tuple[str, str | None, float], AsyncOpenAI] = {}
        self._asked: Counter[str] = Counter()
        self._manners: dict[tuple[str, str], _Manners] = {}
        self._noted: set[str] = set()
        self._answers = 0

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    async def ask(self, role: str, messages: Sequence[Message], *, seed: int = 0) -> Reply:
        """The reply of a role's model.

        Raises:
            TooLong: the prompt does not fit the model's context.
            LlmError: this request got no usable reply.
            RoleFailure: no request of this run will (wrong key, no such model, no server).
            OutOfBudget: a limit on tokens or dollars is reached.
        """
        model = self.settings.of(role)
        base = request_key(role, model, messages, seed)
        key = f"{base}-{self._asked[base]}"
        self._asked[base] += 1
        known = self._recorder.find(key)
        if known is not None and not (self._recorder.live and known.never_answered):
            self.ledger.add(role, known.model, known.spent)
            return _usable(known)
        if not self._recorder.live:
            raise RoleFailure(
                f"the replayed run has no reply to this request of the {role}: kernel, settings, "
                "prompts or package version are not those of the recording"
            )
        async with self._slots:
            return await _Request(self, key, role, model, messages, seed).answer()

    # -- what requests share ----------------------------------------------------------

    def note(self, text: str) -> None:
        """Tell the user something about an endpoint, once."""
        if self._note is not None and text not in self._noted:
            self._note(text)
        self._noted.add(text)

    def arrived(self, role: str, chars: int) -> None:
        if self._on_text is not None:
            self._on_text(role, chars)

    def manners(self, model: ModelSettings) -> _Manners:
        return self._manners.setdefault((model.base_url, model.model), _Manners())

    def client(self, model: ModelSettings) -> AsyncOpenAI:
        from accelopt_lsp.agents.llm.http import client_for

        api_key = model.api_key(self._environment)
        identity = (model.base_url, api_key, model.timeout_seconds)
        if identity not in self._clients:
            self._clients[identity] = client_for(model, api_key)
        return self._clients[identity]

    def wait(self, attempt: int, asked: float | None) -> float:
        """Seconds before the next try: what the endpoint asks for, else doubling, with jitter."""
        if asked is not None:
            return asked * random.uniform(1.0, 1.1)
        longest: float = min(self._first_wait * 2.0**attempt, LONGEST_WAIT_S)
        return longest * random.uniform(0.5, 1.0)

    def redacted(self, model: ModelSettings, text: str) -> str:
        key = model.api_key(self._environment)
        return text.replace(key, "***") if key else text

    def advice(self, model: ModelSettings, status: int, text: str) -> str:
        """What to do about a request that an endpoint refuses for good."""
        if status == 404 or names_no_model(text):
            return (
                f"; is {model.model!r} a model of this endpoint, and is the URL right? "
                "`accelopt doctor` with --llm-url lists its models"
            )
        if status not in (401, 403):
            return ""
        if model.api_key(self._environment) is not None:
            return "; the API key was refused"
        if model.from_project:
            return (
                "; no key was sent, since the project names this endpoint: set "
                "ACCELOPT_LLM_HOSTS to its host if you trust it with your key"
            )
        return "; set ACCELOPT_LLM_API_KEY"

    def answered(self) -> None:
        self._answers += 1

    @property
    def answers(self) -> int:
        """Replies so far, from any endpoint of the run."""
        return self._answers

    def save(self, exchange: Exchange) -> None:
        self._recorder.save(exchange)


class _Request:
    """One request with its retries."""

    def __init__(
        self,
        models: ChatModels,
        key: str,
        role: str,
        model: ModelSettings,
        messages: Sequence[Message],
        seed: int,
    ) -> None:
        self._models = models
        self._key = key
        self._role = role
        self._model = model
        self._messages = tuple(messages)
        self._seed = seed
        self._spent = Spent()
        self._errors: list[str] = []
        self._begun = time.monotonic()
        self._chars = sum(len(m["content"]) for m in messages)

    async def answer(self) -> Reply:
        """Ask until there is a reply; what failed for good is kept as an exchange without one."""
        try:
            exchange = await self._exchange()
        except BaseException:
            # Nobody will look for it, but it is paid for.
            if self._spent.calls:
                lost = f"{self._key}-lost-{secrets.token_hex(4)}"
                self._models.save(evolve(self._kept(None), key=lost))
            raise
        self._models.save(exchange)
        return _usable(exchange)

    def _kept(self, received: Received | None) -> Exchange:
        return Exchange(
            self._key,
            self._role,
            self._model.model,
            self._messages,
            received.text if received is not None else None,
            received.finish if received is not None else None,
            self._spent,
            time.monotonic() - self._begun,
            tuple(self._errors),
        )

    async def _exchange(self) -> Exchange:
        models, model = self._models, self._model
        others = models.answers
        unusable = 0
        for attempt in range(model.retries + 1):
            models.ledger.check()
            received = Received()
            try:
                await self._try(received)
                models.answered()
                return self._kept(received)
            except TooLong as error:
                self._errors.append(str(error))
                return evolve(self._kept(None), too_long=True, context=error.limit)
            except LlmError as error:
                self._errors.append(str(error))
                return self._kept(None)
            except Passing as passing:
                self._errors.append(models.redacted(model, str(passing)))
                unusable += passing.answered
                never_there = passing.unreachable and not models.answers
                if (
                    attempt == model.retries
                    or unusable >= ANSWER_TRIES
                    or (never_there and attempt + 1 >= FIRST_CONTACT_TRIES)
                ):
                    break
                wait = passing.wait
            await asyncio.sleep(models.wait(attempt, wait))
        if not unusable and models.answers == others:
            # It is not this request: the endpoint answers nobody.
            tries = f"{len(self._errors)} {'try' if len(self._errors) == 1 else 'tries'}"
            more = "go on later with --resume" if others else "is it running, and is its URL right?"
            raise RoleFailure(
                f"{model.shown_url} gave no reply in {tries}: {self._errors[-1]}; {more}"
            )
        return self._kept(None)

    async def _try(self, received: Received) -> None:
        """One try; whatever came back is booked, also if it is of no use or was cancelled."""
        manners = self._models.manners(self._model)
        try:
            await self._send(received, manners)
            ended = received.ended or received.finish is not None
            if ended:
                manners.marks_no_end = False
            elif received.text.strip() and len(self._errors) + 1 == ANSWER_TRIES:
                # Who breaks off every time does not mark the end.
                manners.marks_no_end = True
            received.ended = ended or manners.marks_no_end
            received.check()
        finally:
            if received.sent:
                self._book(received)

    def _book(self, received: Received) -> None:
        arrived = received.length + received.thought
        spent = spent_on(self._model, self._chars, arrived, received.usage)
        self._spent += spent
        self._models.ledger.add(self._role, self._model.model, spent)
        if spent.prompt and self._chars > LEAST_CHARS_PER_TOKEN * spent.prompt:
            self._models.note(
                f"{self._model.shown_url} counted {spent.prompt:,} tokens in a prompt of "
                f"{self._chars:,} characters: it seems to cut prompts; give the model a longer "
                "context (OLLAMA_CONTEXT_LENGTH for Ollama) or set context-tokens"
            )

    async def _send(self, received: Received, manners: _Manners) -> None:
        """Send the request and collect its reply.

        Parameters that an endpoint refuses by name are left out from then on.
        """
        import openai

        model = self._model
        while True:
            options = _options(model, self._seed, manners.refused)
            try:
                async with asyncio.timeout(model.reply_seconds):
                    await self._collect(received, options, "system" not in manners.refused)
                return
            except openai.APIStatusError as error:
                received.sent = False
                text = _said(error)
                unwanted = refused_parameter(
                    error.status_code, text, options, system="system" not in manners.refused
                )
                if unwanted is None:
                    raise self._judged(error, text) from None
                manners.refused.add(unwanted)
                if unwanted in ("temperature", "reasoning_effort", "max_completion_tokens"):
                    self._models.note(
                        f"{model.model} does not take {unwanted.replace('_', '-')}, which was "
                        f"left out: {one_line(text, 200)}"
                    )
            except openai.APITimeoutError:
                raise Passing(
                    f"no sign of life within {model.timeout_seconds:g} s (timeout-seconds)"
                ) from None
            except TimeoutError:
                raise Passing(
                    f"no whole reply within {model.reply_seconds:g} s (reply-seconds)",
                    answered=True,
                ) from None
            except (openai.APIError, OSError, ValueError) as error:
                received.sent = received.sent and _arrived(received)
                raise self._unreachable(error, received) from None
            except Exception as error:
                if not type(error).__module__.startswith(_TRANSPORT):
                    raise
                raise self._unreachable(error, received) from None

    async def _collect(
        self, received: Received, options: Mapping[str, Any], with_system: bool
    ) -> None:
        client = self._models.client(self._model)
        create: Any = client.chat.completions.with_streaming_response.create
        messages = self._messages if with_system else _without_system(self._messages)
        received.sent = True

        def progress() -> None:
            self._models.arrived(self._role, received.length + received.thought)

        async with create(model=self._model.model, messages=list(messages), **options) as answer:
            await read_reply(answer.iter_bytes(), received, progress)

    def _judged(self, error: Any, text: str) -> Exception:
        """What an HTTP error means for this request and this run."""
        models, model, status = self._models, self._model, error.status_code
        if 300 <= status < 400:
            text = f"it redirects to {error.response.headers.get('location', 'somewhere else')}"
        why = models.redacted(model, one_line(f"{status} from {model.shown_url}: {text}"))
        found = judged(status, why, asked_wait(error.response.headers))
        if type(found) is LlmError and not models.answers:
            return RoleFailure(why)
        if isinstance(found, RoleFailure):
            return RoleFailure(f"{found}{models.advice(model, status, text)}")
        return found

    def _unreachable(self, error: BaseException, received: Received) -> Exception:
        """What a broken connection means."""
        model = self._model
        why = self._models.redacted(model, told(error))
        if "CERTIFICATE_VERIFY_FAILED" in why:
            return RoleFailure(
                f"{model.shown_url}: {why}; if it is an endpoint of your own, point SSL_CERT_FILE "
                "to its certificate"
            )
        if "WRONG_VERSION_NUMBER" in why or "record layer failure" in why.lower():
            return RoleFailure(f"{model.shown_url}: {why}; does this server speak https at all?")
        if isinstance(error, UnicodeError):
            return RoleFailure("the API key has characters that a header cannot carry")
        if _arrived(received):
            return Passing(why, answered=True)
        return Passing(why, unreachable=True)


def _arrived(received: Received) -> bool:
    return bool(received.length or received.thought)


def _said(error: Any) -> str:
    """What an endpoint says in an error's body."""
    body = error.body
    if isinstance(body, Mapping):
        said = body.get("message") or body.get("detail") or body.get("error") or dict(body)
        marks = [str(body[n]) for n in ("code", "type", "param") if isinstance(body.get(n), str)]
        return f"{said if isinstance(said, str) else json.dumps(said, default=str)} " + (
            f"({', '.join(marks)})" if marks else ""
        )
    text = error.response.text.strip() or str(error)
    return "a web page" if "<html" in text[:2_000].lower() else str(text)


def request_key(role: str, model: ModelSettings, messages: Sequence[Message], seed: int) -> str:
    """Hash of who asks which model what; how the model was set plays no part in finding it."""
    asked = [role, model.model, seed, list(messages)]
    text = json.dumps(asked, sort_keys=True, ensure_ascii=True, default=dict)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def _usable(exchange: Exchange) -> Reply:
    if exchange.reply is None:
        why = exchange.errors[-1] if exchange.errors else "no reply"
        if exchange.too_long:
            raise TooLong(why, exchange.context)
        raise LlmError(f"no usable reply from {exchange.model}: {why}")
    return Reply(exchange.reply, Received(finish=exchange.finish).cut)


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


def _without_system(messages: Sequence[Message]) -> list[Message]:
    """Messages for models that know no system role: it becomes part of the first question."""
    system = "\n\n".join(m["content"] for m in messages if m["role"] == "system")
    rest = [dict(m) for m in messages if m["role"] != "system"]
    if rest and system:
        rest[0]["content"] = f"{system}\n\n{rest[0]['content']}"
    return list(rest)
