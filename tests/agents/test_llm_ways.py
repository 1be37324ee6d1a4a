"""Ways to an endpoint: URLs as people write them, proxies, names, certificates, keys."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from attrs import frozen

from accelopt_lsp.agents.llm.client import ChatModels
from accelopt_lsp.agents.llm.settings import llm_settings
from accelopt_lsp.agents.roles import RoleFailure
from tests.agents.llm_server import serving
from tests.agents.llm_talk import ASKED, FINE, chat_at, stream

BASES = {
    "": "/v1/chat/completions",
    "/": "/v1/chat/completions",
    "/v1": "/v1/chat/completions",
    "/v1/": "/v1/chat/completions",
    "/v1/chat/completions": "/v1/chat/completions",
    "/openai/deployments/d?api-version=1": "/openai/deployments/d/chat/completions?api-version=1",
}


@pytest.mark.parametrize(("tail", "path"), BASES.items())
async def test_urls_as_people_write_them(tail: str, path: str) -> None:
    with serving(lambda *_: FINE) as server:
        chat = chat_at(server, base_url=server.url + tail)
        assert (await chat.ask("executor", ASKED)).text == "fine"
        await chat.close()
    assert server.paths == [path]


async def test_a_proxy_is_no_way_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with serving(lambda *_: FINE) as server:
        chat = chat_at(server)
        assert (await chat.ask("executor", ASKED)).text == "fine"
        await chat.close()


async def test_another_host_is_asked_through_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda *_: FINE) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        chat = chat_at(proxy, base_url="http://model.example/v1")
        assert (await chat.ask("executor", ASKED)).text == "fine"
        await chat.close()
    assert proxy.paths == ["http://model.example/v1/chat/completions"]


async def test_a_name_that_nobody_knows_ends_the_run_soon() -> None:
    settings = llm_settings(None, {"base_url": "http://model.invalid/v1", "model": "m"}, {})
    chat = ChatModels(settings, environment={}, first_wait=0.001)
    with pytest.raises(RoleFailure, match="gave no reply in 2 tries.*is its URL right"):
        await chat.ask("executor", ASKED)
    await chat.close()


@frozen
class Secured:
    """A server whose certificate nobody knows, and that certificate."""

    url: str
    certificate: Path


@pytest.fixture(scope="module")
def self_signed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A server that answers over TLS."""
    folder = tmp_path_factory.mktemp("tls")
    pair = folder / "pair.pem"
    make = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
    names = ("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1")
    named = ("-nodes", "-days", "2", *names)
    files = ("-keyout", folder / "key.pem", "-out", folder / "cert.pem")
    try:
        subprocess.run([*make, *named, *files], check=True, capture_output=True)
    except OSError:
        pytest.skip("openssl is not installed")
    pair.write_text((folder / "key.pem").read_text() + (folder / "cert.pem").read_text())

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(stream({"content": "fine"}).raw or b"")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    http.socket = context.wrap_socket(http.socket, server_side=True)
    thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield Secured(f"https://127.0.0.1:{http.server_address[1]}/v1", folder / "cert.pem")
    http.shutdown()
    http.server_close()
    thread.join()


async def test_an_unknown_certificate_ends_the_run_with_advice_that_helps(
    self_signed: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = llm_settings(None, {"base_url": self_signed.url, "model": "m"}, {})
    chat = ChatModels(settings)
    with pytest.raises(RoleFailure, match="SSL_CERT_FILE"):
        await chat.ask("executor", ASKED)
    await chat.close()
    monkeypatch.setenv("SSL_CERT_FILE", str(self_signed.certificate))
    chat = ChatModels(settings)
    assert (await chat.ask("executor", ASKED)).text == "fine"
    await chat.close()


async def test_https_to_a_server_of_plain_http_ends_the_run_with_advice() -> None:
    with serving(lambda *_: FINE) as server:
        chat = chat_at(server, base_url=server.url.replace("http:", "https:"))
        with pytest.raises(RoleFailure, match="speak https at all"):
            await chat.ask("executor", ASKED)
        await chat.close()


async def test_a_key_that_no_header_carries_is_told() -> None:
    with serving(lambda *_: FINE) as server:
        settings = llm_settings(None, {"base_url": server.url, "model": "m"}, {})
        chat = ChatModels(settings, environment={"ACCELOPT_LLM_API_KEY": "sk-…"}, first_wait=0.001)
        with pytest.raises(RoleFailure, match="a header cannot carry"):
            await chat.ask("executor", ASKED)
        await chat.close()
