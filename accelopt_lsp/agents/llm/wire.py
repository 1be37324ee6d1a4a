"""What comes back over the wire: one reply, as a stream of events or as one object.

Everything here is untrusted: bounded in size, and taken apart without believing in any shape.
Both forms are told apart by what they are, not by what was asked for or what the headers say.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from attrs import define, field

from accelopt_lsp.agents.llm.faults import LlmError, Passing, judged, one_line

MAX_REPLY_CHARS = 400_000
"""A longer reply is cut off: no kernel is that long, and a model that loops costs money."""
MAX_REASONING_CHARS = 2_000_000
MAX_BYTES = 64 << 20
"""Of one answer, events and all."""
MAX_OBJECT_BYTES = 16 << 20

_CUT = frozenset({"length", "max_tokens", "model_length", "content_filter"})


@define(slots=True)
class Received:
    """What has arrived of one reply.

    Attributes:
        parts, length: text of the answer, and its characters.
        reasoning: what the model thought aloud, kept apart from its answer.
        tools: arguments of tool calls, which nobody asked for.
        refusal: why the model does not answer.
        finish: the endpoint's ``finish_reason``.
        ended: the endpoint said that this is all.
        usage: the endpoint's own count of tokens.
        sent: the request may have reached the endpoint, which may charge for it.
    """

    parts: list[str] = field(factory=list)
    length: int = 0
    reasoning: list[str] = field(factory=list)
    thought: int = 0
    tools: list[str] = field(factory=list)
    refusal: str = ""
    finish: str | None = None
    ended: bool = False
    usage: Mapping[str, Any] | None = None
    sent: bool = False

    @property
    def text(self) -> str:
        """The answer; what stands elsewhere counts where there is none."""
        answer = _joined(self.parts)
        if answer.strip() or self.cut:
            return answer
        return _joined(self.tools) or _joined(self.reasoning)

    @property
    def cut(self) -> bool:
        """The reply was ended before the model had finished."""
        return self.finish is not None and self.finish.lower() in _CUT

    @property
    def too_large(self) -> bool:
        return self.length > MAX_REPLY_CHARS or self.thought > MAX_REASONING_CHARS

    def check(self) -> None:
        """Whether this is a whole reply.

        Raises:
            LlmError: it is none, and asking again would bring the same.
            Passing: another try may bring one.
        """
        if self.finish == "error":
            raise Passing("the endpoint broke the reply off with an error", answered=True)
        if not self.text.strip():
            if self.refusal:
                raise LlmError(f"the model refused: {one_line(self.refusal, 200)}")
            if self.finish == "content_filter":
                raise LlmError("the endpoint's content filter held the reply back")
            if self.cut:
                raise LlmError(
                    "the model reached its length limit before it began to answer: raise "
                    "max-output-tokens, or lower reasoning-effort"
                )
            raise Passing("the reply is empty", answered=True)
        if self.finish is None and not self.ended:
            raise Passing("the reply broke off", answered=True)

    def take(self, data: Any) -> None:
        """One object of an endpoint: a whole reply or a piece of one.

        Raises:
            LlmError, Passing, RoleFailure: it says that something is wrong.
        """
        if not isinstance(data, Mapping):
            raise Passing("the reply holds no object", answered=True)
        _raise_error(data)
        if isinstance(data.get("usage"), Mapping):
            self.usage = data["usage"]
        choices = data.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, Mapping) and choice.get("index") in (0, None):
                self._take_choice(choice)

    def _take_choice(self, choice: Mapping[str, Any]) -> None:
        said = choice.get("delta")
        if not isinstance(said, Mapping):
            said = choice.get("message")
        if not isinstance(said, Mapping):
            said = {"content": choice.get("text")}
        text = _content(said.get("content"))
        self.parts.append(text)
        self.length += len(text)
        for name in ("reasoning_content", "reasoning", "thinking"):
            thought = said.get(name)
            if isinstance(thought, str):
                self.reasoning.append(thought)
                self.thought += len(thought)
                break
        refusal = said.get("refusal")
        if isinstance(refusal, str):
            self.refusal = (self.refusal + refusal)[:1_000]
        calls = said.get("tool_calls")
        older = {"function": said.get("function_call")}
        for call in (*(calls if isinstance(calls, list) else ()), older):
            function = call.get("function") if isinstance(call, Mapping) else None
            arguments = function.get("arguments") if isinstance(function, Mapping) else None
            if isinstance(arguments, str):
                self.tools.append(arguments)
                self.length += len(arguments)
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            self.finish = finish


def _joined(parts: list[str]) -> str:
    """Pieces of text as one that can be stored: half a character is none."""
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _content(value: Any) -> str:
    """Text of a message, which some endpoints send in parts."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        return ""
    found = []
    for part in value:
        text = part.get("text") if isinstance(part, Mapping) else part
        if isinstance(text, str):
            found.append(text)
    return "".join(found)


def _raise_error(data: Mapping[str, Any]) -> None:
    """What an endpoint reports inside an answer that looks fine."""
    error = data.get("error")
    if data.get("object") == "error" or ("choices" not in data and "detail" in data):
        error = error or data
    if not error:
        return
    status: int | None = None
    if isinstance(error, Mapping):
        code = error.get("code", error.get("status"))
        number = int(code) if isinstance(code, int | str) and str(code).isdecimal() else 0
        status = number if 400 <= number < 600 else None
        said = error.get("message") or error.get("detail") or json.dumps(error, default=str)
        kind = code if isinstance(code, str) else error.get("type")
        text = f"{said} ({kind})" if isinstance(kind, str) and kind else str(said)
    else:
        text = str(error)
    raise judged(status, one_line(f"the endpoint reports: {text}"))


class _Events:
    """Server-sent events: lines that begin with ``data:``, up to an empty one."""

    def __init__(self, received: Received) -> None:
        self._received = received
        self._data: list[bytes] = []
        self.count = 0

    def line(self, line: bytes) -> bool:
        """Take one line; False if it is none of a stream of events."""
        line = line.removesuffix(b"\r")
        if not line:
            self.dispatch()
        elif line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
        elif not line.startswith((b":", b"event:", b"id:", b"retry:")):
            return False
        return True

    def dispatch(self) -> None:
        """Take the event that has come together."""
        data, self._data = b"\n".join(self._data).strip(), []
        if not data:
            return
        self.count += 1
        if data.startswith(b"[DONE]"):
            self._received.ended = True
            return
        try:
            found = json.loads(data.decode("utf-8", "replace"), strict=False)
        except (ValueError, RecursionError):
            raise Passing(
                f"an event is no JSON: {one_line(data[:80].decode('utf-8', 'replace'))}",
                answered=True,
            ) from None
        self._received.take(found)


async def read_reply(
    pieces: AsyncIterator[bytes], received: Received, progress: Callable[[], None] | None = None
) -> None:
    """Read one answer into ``received``; what is too large is cut off.

    Args:
        pieces: the answer's body as it arrives.
        progress: told whenever something has arrived.

    Raises:
        LlmError, Passing, RoleFailure: it is no reply, or reports an error.
    """
    events = _Events(received)
    pending = bytearray()
    other = bytearray()
    total = searched = 0
    async for piece in pieces:
        total += len(piece)
        pending += piece
        while (end := pending.find(b"\n", searched)) >= 0:
            line = bytes(pending[:end])
            del pending[: end + 1]
            searched = 0
            if not events.line(line):
                other += line + b"\n"
            if received.ended or received.too_large:
                break
        searched = len(pending)
        if progress is not None:
            progress()
        if received.ended:
            return
        if received.too_large or total > MAX_BYTES or len(pending) + len(other) > MAX_OBJECT_BYTES:
            received.finish = "length"
            return
    if pending and not events.line(bytes(pending)):
        other += pending
    events.dispatch()
    if not events.count:
        _take_whole(bytes(other).decode("utf-8", "replace"), received)


def _take_whole(text: str, received: Received) -> None:
    """An answer that is no stream of events."""
    if not text.strip():
        raise Passing("the reply is empty", answered=True)
    try:
        found = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        kind = "a web page" if "<html" in text[:2_000].lower() else "no JSON"
        raise Passing(
            f"the endpoint answered with {kind}: {one_line(text[:300], 120)}", answered=False
        ) from None
    received.take(found)
    received.ended = True
