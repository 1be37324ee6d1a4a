"""After a save in a trusted workspace a traced run tells what analysis could not know."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lsprotocol import types as lsp

from accelopt_lsp.server.documents import Documents
from accelopt_lsp.server.features import tracing
from accelopt_lsp.server.jobs import Job
from accelopt_lsp.server.snapshot import Request
from accelopt_lsp.server.worker import check
from tests.server.conftest import Session

KERNEL = Path(__file__).parent / "kernels" / "partly_known.py"


def saved(real: Session, uri: str) -> None:
    real.client.text_document_did_save(
        lsp.DidSaveTextDocumentParams(lsp.TextDocumentIdentifier(uri))
    )


async def loop_hints(real: Session, uri: str, wanted: str) -> list[str]:
    """The hints of loops, once the wanted one is among them or time is up."""
    texts: list[str] = []
    for _ in range(240):
        texts = [str(h.label) for h in await real.hints(uri) if "trips" in str(h.label)]
        if any(wanted in text for text in texts):
            break
        await asyncio.sleep(0.25)
    return texts


async def test_saving_fills_in_what_the_source_does_not_tell(real: Session, tmp_path: Path):
    file = Path(shutil.copy(KERNEL, tmp_path))
    await real.start()
    uri = real.open(file.as_uri(), file.read_text("utf-8"))
    assert await loop_hints(real, uri, "4 trips") == ["4 trips"]
    saved(real, uri)
    assert any("16 trips" in text for text in await loop_hints(real, uri, "16 trips"))
    (lens, *_) = await real.lenses(uri)
    assert "simulated" in lens.command.title


class FakeApp:
    """What the feature touches of the server, and what it did with it."""

    def __init__(self, text: str, *, trusted: bool = True) -> None:
        self.documents = Documents()
        self.documents.open(lsp.TextDocumentItem(KERNEL.as_uri(), "python", 1, text))
        self.document: Any = self.documents.get(KERNEL.as_uri())
        self.configuration = SimpleNamespace(trusted=trusted)
        self.spawned: list[Any] = []
        self.started: list[tuple[str, ...]] = []
        self.cancelled: list[str] = []
        self.running: tuple[Job, ...] = ()
        self.jobs = SimpleNamespace(
            of=lambda operation, uri: self.running,
            cancel=self.cancelled.append,
            working_on=lambda key: None,
            start=lambda title, key, body: self.started.append(key),
        )
        snapshot = check(Request(str(KERNEL), text))
        self.analysed = SimpleNamespace(snapshot=snapshot, generation=self.document.generation)
        self.analyses = SimpleNamespace(current=self._current)

    async def _current(self, document: Any) -> Any:
        return self.analysed

    def configuration_of(self, document: Any) -> Any:
        return self.configuration

    def spawn(self, work: Any) -> None:
        self.spawned.append(work)

    def workbench_settings(self, document: Any) -> dict[str, Any]:
        return {}

    def save(self) -> None:
        tracing.after_save(self, self.document)  # type: ignore[arg-type]
        for work in self.spawned:
            asyncio.run(work)


TEXT = KERNEL.read_text("utf-8")


def test_kernels_with_unknowns_are_traced():
    app = FakeApp(TEXT)
    app.save()
    assert app.started == [("trace", KERNEL.as_uri(), "kernel")]


def test_kernels_that_analysis_counted_are_not():
    app = FakeApp(TEXT.replace('sorted(dir(math)).index("isqrt") * 0 + 16', "16"))
    app.save()
    assert app.started == []


def test_nothing_runs_without_trust():
    app = FakeApp(TEXT, trusted=False)
    app.save()
    assert app.spawned == []
    assert app.started == []


def test_kernels_without_arguments_are_not_run():
    app = FakeApp(TEXT.replace("# accelopt: x=f32[2048,512]\n", "\n"))
    app.save()
    assert app.started == []


def test_an_edit_meanwhile_leaves_the_older_text_alone():
    app = FakeApp(TEXT)
    app.analysed.generation -= 1
    app.save()
    assert app.started == []


def test_an_edit_cancels_the_run():
    app = FakeApp(TEXT)
    app.running = (Job("accelopt-trace-1", "Trace kernel", ("trace", KERNEL.as_uri(), "kernel")),)
    tracing.cancel(app, KERNEL.as_uri())  # type: ignore[arg-type]
    assert app.cancelled == ["accelopt-trace-1"]
