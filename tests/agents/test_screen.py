"""What the static rules show to be rejected is not run."""

from __future__ import annotations

from pathlib import Path

from accelopt_lsp.nki.arguments import parse_spec
from accelopt_lsp.workbench.models import static_screen
from accelopt_lsp.workbench.requests import KernelRequest, resolve_kernel

TEXT = """import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.activation(dst=tile, op=nl.exp, data=tile)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
WIDE = TEXT.replace("tile = nl.ndarray((128, 512)", "tile = nl.ndarray((256, 256)")


async def screened(tmp_path: Path, baseline: str, attempt: str) -> str | None:
    """The code with which an attempt at a baseline is refused."""
    file = tmp_path / "kernel.py"
    file.write_text(baseline)
    arguments = {"x": parse_spec("bf16[128,512]")}
    failure = await static_screen(resolve_kernel(KernelRequest(file, arguments=arguments)))(attempt)
    return failure.code if failure is not None else None


async def test_a_new_error_is_a_refusal(tmp_path: Path) -> None:
    assert await screened(tmp_path, TEXT, TEXT) is None
    assert await screened(tmp_path, TEXT, WIDE) == "R023"
    assert await screened(tmp_path, TEXT, TEXT.replace("return out", "return (out")) == "S001"


async def test_an_error_that_the_baseline_has_refuses_nothing(tmp_path: Path) -> None:
    assert await screened(tmp_path, WIDE, WIDE.replace("nl.exp", "nl.tanh")) is None
