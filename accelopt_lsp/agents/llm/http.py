"""The official client, set up so that it goes nowhere but where the user sends it.

Imported when the first request is made, since importing ``openai`` takes a second.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from openai import APIError, APIStatusError, AsyncOpenAI, DefaultAsyncHttpxClient

from accelopt_lsp.agents.llm.faults import one_line, told
from accelopt_lsp.agents.llm.settings import ModelSettings

MAX_ERROR_BYTES = 64 * 1024
MAX_LIST_BYTES = 8 << 20


class EndpointError(Exception):
    """An endpoint does not say which models it has.

    Attributes:
        status: the HTTP status; None if there was no answer.
    """

    def __init__(self, why: str, status: int | None = None) -> None:
        super().__init__(why)
        self.status = status


class _BoundedClient(DefaultAsyncHttpxClient):
    """Follows no redirect, and reads no more than the beginning of an error."""

    async def send(self, request: Any, **options: Any) -> Any:
        response = await super().send(request, **options)
        if response.status_code < 300:
            return response
        data = bytearray()
        try:
            async for piece in response.aiter_bytes():
                data += piece
                if len(data) > MAX_ERROR_BYTES:
                    break
        finally:
            await response.aclose()
        about_body = {"content-encoding", "content-length", "transfer-encoding"}
        return type(response)(
            response.status_code,
            headers=[(k, v) for k, v in response.headers.items() if k not in about_body],
            content=bytes(data[:MAX_ERROR_BYTES]),
            request=request,
        )


def client_for(model: ModelSettings, api_key: str | None) -> AsyncOpenAI:
    """A client of a model's endpoint."""
    parts = urlsplit(model.base_url)
    headers: dict[str, str] = {}
    if api_key and (parts.hostname or "").endswith(".azure.com"):
        # Azure's older interface takes keys in a header of its own.
        headers["api-key"] = api_key
    return AsyncOpenAI(
        base_url=urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")),
        # Local servers want none, the client insists on one.
        api_key=api_key or "none",
        timeout=model.timeout_seconds,
        max_retries=0,
        default_query=dict(parse_qsl(parts.query)),
        default_headers=headers,
        http_client=_BoundedClient(
            follow_redirects=False,
            # A proxy is no way to this machine.
            mounts=dict.fromkeys(("http://", "https://", "all://")) if model.is_local else None,
            timeout=model.timeout_seconds,
        ),
    )


async def list_models(model: ModelSettings) -> list[str]:
    """Names of the models of an endpoint.

    Raises:
        EndpointError: it is not there, refuses, or has no such list.
    """
    key = model.api_key()
    data = bytearray()
    async with client_for(model, key) as client:
        try:
            async with client.models.with_streaming_response.list() as answer:
                async for piece in answer.iter_bytes():
                    data += piece
                    if len(data) > MAX_LIST_BYTES:
                        raise EndpointError("the list of models has no end", 200)
        except APIStatusError as error:
            why = one_line(f"{error.status_code}: {error.message}", 300)
            raise EndpointError(
                why.replace(key, "***") if key else why, error.status_code
            ) from None
        except (APIError, OSError, ValueError) as error:
            raise EndpointError(f"no answer: {told(error)}") from None
    try:
        found = json.loads(data)
    except ValueError:
        raise EndpointError("the answer is no JSON", 404) from None
    items = found.get("data") if isinstance(found, Mapping) else found
    names = [i.get("id") for i in items or () if isinstance(i, Mapping)]
    return sorted(name for name in names if isinstance(name, str))
