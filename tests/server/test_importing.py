"""What one open document imports from another is what the other's editor shows, saved or not."""

from __future__ import annotations

import asyncio
from pathlib import Path

from lsprotocol import types as lsp

from tests.server.conftest import Session

KERNEL = """import nki
import nki.isa as nisa
import nki.language as nl

from sizes import TILES


# accelopt: x=f32[128,4096]
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(TILES):
        tile = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, i * 128 : (i + 1) * 128])
        nisa.dma_copy(dst=out[:, i * 128 : (i + 1) * 128], src=tile)
    return out
"""


async def becomes(real: Session, uri: str, beginning: str) -> None:
    """Wait until the hint at the loop begins with a text."""
    line = KERNEL[: KERNEL.index("    for i")].count("\n")
    seen: list[str] = []
    for _ in range(300):
        seen = [str(h.label) for h in await real.hints(uri) if h.position.line == line]
        if seen and seen[0].startswith(beginning):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"expected {beginning}..., last seen {seen}")


async def test_unsaved_changes_of_an_imported_file_count(real: Session, tmp_path: Path):
    (tmp_path / "kernel.py").write_text(KERNEL)
    sizes = tmp_path / "sizes.py"
    sizes.write_text("TILES = 4\n")
    await real.start()
    uri = real.open((tmp_path / "kernel.py").as_uri(), KERNEL)
    await becomes(real, uri, "4 ")
    other = real.open(sizes.as_uri(), "TILES = 4\n")
    real.change(other, "TILES = 16\n")
    await becomes(real, uri, "16 ")
    real.client.text_document_did_close(
        lsp.DidCloseTextDocumentParams(lsp.TextDocumentIdentifier(other))
    )
    # The file on disk counts again, as soon as something asks.
    real.change(uri, KERNEL + "\n")
    await becomes(real, uri, "4 ")
