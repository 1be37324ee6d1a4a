"""The official client, set up so that it goes nowhere but where the user sends it.

Imported when the first request is made, since importing ``openai`` takes a second.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from accelopt_lsp.agents.llm.settings import ModelSettings

MAX_ERROR_BYTES = 64 * 1024


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
        organization="",
        project="",
        timeout=model.timeout_seconds,
        max_retries=0,
        default_query=dict(parse_qsl(parts.query)),
        default_headers=headers,
        http_client=_BoundedClient(
            follow_redirects=False,
            # A proxy is no way to this machine.
            trust_env=not model.is_local,
            timeout=model.timeout_seconds,
        ),
    )
