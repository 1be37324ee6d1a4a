"""What goes wrong at endpoints, and what it means for one request and for the run.

Servers agree on status codes and on little else, so the words of an error count as well. The
patterns below are those of the servers that people run: OpenAI and Azure, vLLM, SGLang,
llama.cpp, Ollama, LiteLLM, OpenRouter, gateways to Bedrock.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from accelopt_lsp.agents.roles import RoleFailure

LONGEST_PAUSE_S = 300.0
"""An endpoint that asks for a longer pause ends the run, which can be resumed."""

_REFUSED_STATUS = frozenset({401, 402, 403, 404, 405})
_PASSING_STATUS = frozenset({408, 409, 425, 429})
_TOO_LONG = re.compile(
    r"context[ _-]?(length|window|size|limit)|maximum (context|model length)"
    r"|too many (input )?tokens"
    r"|(prompt|input|request|message)\S* (is |are )?too (long|large)|reduce the length"
    r"|exceeds? the (available|maximum|model)[^.]*(context|tokens|length)|token limit exceeded"
    r"|input length[^.]*exceed",
    re.IGNORECASE,
)
_LIMITS = (
    re.compile(
        r"(?:maximum (?:context|prompt|input|model)?\s*(?:length|size|window)?"
        r"|context[ _-]?(?:length|size|window)|n_ctx|limit)[^\d]{0,30}(\d[\d,]{2,})",
        re.IGNORECASE,
    ),
    re.compile(r"(\d[\d,]{2,})\s*(?:tokens?)?\s*(?:maximum|limit)", re.IGNORECASE),
)
_NO_CREDIT = re.compile(
    r"insufficient_quota|exceeded your current quota|credit balance|billing|payment required",
    re.IGNORECASE,
)
_NO_KEY = re.compile(
    r"(invalid|incorrect|missing|no) [\w -]*(api[ _-]?key|token|credential)|unauthori[sz]ed"
    r"|authentication",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model\b.{0,120}?\b(not (be )?found|does not exist|not exist|unknown|not available)"
    r"|(no such|unknown|invalid) model",
    re.IGNORECASE | re.DOTALL,
)
_NO_SYSTEM = re.compile(
    r"system (role|message|prompt|instruction)s?\b.{0,60}?(not|un)\s?(be )?(supported|allowed|"
    r"permitted|enabled)|conversation roles must alternate|does not support ['\"]?system"
    r"|developer instruction is not enabled|only user and assistant roles are supported",
    re.IGNORECASE | re.DOTALL,
)
_PARAMETERS = {
    "stream_options": re.compile(r"stream_options|include_usage"),
    "reasoning_effort": re.compile(r"reasoning[_. ]effort|\breasoning\b|\bthink"),
    "temperature": re.compile(r"temperature"),
    "seed": re.compile(r"\bseed\b"),
    "max_tokens": re.compile(r"\bmax_tokens\b"),
    "max_completion_tokens": re.compile(r"max_completion_tokens|max_tokens"),
    "stream": re.compile(r"\bstream(ing)?\b"),
}


class LlmError(Exception):
    """One request got no usable reply; others may. The message says why."""


class TooLong(LlmError):
    """The prompt does not fit the model's context.

    Attributes:
        limit: tokens of the context, if the endpoint names them.
    """

    def __init__(self, why: str, limit: int | None = None) -> None:
        super().__init__(why)
        self.limit = limit


class Passing(Exception):  # noqa: N818 - asks for another try
    """Worth another try.

    Attributes:
        wait: seconds that the endpoint asks for.
        answered: the endpoint did answer, and the answer is unusable: asking again costs money.
        unreachable: there was no connection at all.
    """

    def __init__(
        self,
        why: str,
        wait: float | None = None,
        *,
        answered: bool = False,
        unreachable: bool = False,
    ) -> None:
        super().__init__(why)
        self.wait = wait
        self.answered = answered
        self.unreachable = unreachable


def refused_parameter(
    status: int, text: str, options: Mapping[str, object], *, system: bool
) -> str | None:
    """The part of a request that an endpoint does not take, if that is what an error says.

    Args:
        options: the request's optional parameters.
        system: whether the request has a system message.

    Returns:
        The name of a parameter, or ``system``.
    """
    if status not in (400, 404, 422, 500):
        return None
    if system and _NO_SYSTEM.search(text):
        return "system"
    if status not in (400, 422):
        return None
    low = text.lower()
    names = [name for name, pattern in _PARAMETERS.items() if pattern.search(low)]
    if _TOO_LONG.search(text):
        # Room for the reply is part of what does not fit.
        names = [name for name in names if name.startswith("max_")]
    return next((name for name in names if name in options), None)


def judged(status: int | None, text: str, wait: float | None = None) -> Exception:
    """What an error means.

    Args:
        status: the HTTP status; None if the error came inside an answer of status 200.
        text: what the endpoint said.
        wait: seconds after which it may be asked again, if it says so.

    Returns:
        A :class:`TooLong`, :class:`LlmError`, :class:`Passing` or ``RoleFailure``.
    """
    if status in (None, 400, 413, 422, 500) and (status == 413 or _TOO_LONG.search(text)):
        return TooLong(text, context_limit(text))
    if status is not None and 300 <= status < 400:
        return RoleFailure(
            f"{text}; requests go nowhere but where you send them: give that URL if it is right"
        )
    if _NO_CREDIT.search(text) and status in (None, 400, 402, 403, 429):
        return RoleFailure(f"{text}; the account has no credit left")
    if status in _REFUSED_STATUS:
        return RoleFailure(text)
    if status is None and (_NO_KEY.search(text) or _NO_MODEL.search(text)):
        return RoleFailure(text)
    if status is None or status in _PASSING_STATUS or status >= 500:
        if wait is not None and wait > LONGEST_PAUSE_S:
            return RoleFailure(
                f"{text}; the endpoint asks to wait {wait:.0f} s: go on later with --resume"
            )
        return Passing(text, wait)
    return LlmError(text)


def names_no_model(text: str) -> bool:
    """Whether an error says that the endpoint has no such model."""
    return _NO_MODEL.search(text) is not None


def context_limit(text: str) -> int | None:
    """Tokens of a model's context as an error names them; None if it names none."""
    for pattern in _LIMITS:
        found = pattern.search(text)
        if found is not None:
            return int(found[1].replace(",", ""))
    return None


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds that an endpoint asks to wait, from its headers; None if it does not say."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        text = headers.get(name, "")
        try:
            value = float(text) * unit
        except ValueError:
            value = _seconds_until(text)
        if value >= 0:
            return value
    return None


def _seconds_until(date: str) -> float:
    """Seconds until an HTTP date, at least 0; -1 if it is none."""
    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - time.time())
    except (TypeError, ValueError, IndexError, OverflowError):
        return -1.0


def told(error: BaseException) -> str:
    """An error and what caused it, in one line of bounded length."""
    parts: list[str] = []
    current: BaseException | None = error
    while current is not None and len(parts) < 4:
        text = " ".join(str(current).split()) or type(current).__name__
        if not any(text in part for part in parts):
            parts.append(text)
        current = current.__cause__ or current.__context__
    return one_line(": ".join(parts))


def one_line(text: str, most: int = 600) -> str:
    """A text in one line of bounded length, without what would steer a terminal."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= most else f"{line[:most]}..."
