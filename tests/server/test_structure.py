"""Symbols, folding, buffers by memory and hovers of real kernels, over stdio."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from attrs import evolve
from lsprotocol import types as lsp

from accelopt_lsp.agents.memory import OptimizationMemory
from accelopt_lsp.agents.roles import Experience, Origin, Tags
from accelopt_lsp.server.hover_pages import strategy_line
from accelopt_lsp.server.markup import plain
from accelopt_lsp.server.snapshot import Situation
from accelopt_lsp.server.worker import strategies
from tests.server.conftest import Session

KERNELS = Path(__file__).parent / "kernels"
PRODUCT = (KERNELS / "product.py").read_text("utf-8")
LEGACY = '''"""A legacy kernel."""

# First remark.
# Second remark.
import neuronxcc.nki.language as nl
from neuronxcc import nki


# region kernels
# accelopt: a=f32[256,512]
@nki.jit
def scaled(a):
    ä = "größer 😋"; out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(2):
        tile = nl.load(a[i * 128 : (i + 1) * 128, :])
        if i == 0:
            tile = tile
        else:
            tile = nl.exp(
                tile
            )
        nl.store(out[i * 128 : (i + 1) * 128, :], value=tile)
    return out


# endregion


class Helper:
    def method(self):
        return 1
'''


async def opened(session: Session, text: str, **without: object) -> str:
    await session.start(early=False, **without)
    uri = session.open("file:///tmp/structure.py", text)
    await session.diagnostics(uri)
    return uri


def tree(symbols: Iterable[lsp.DocumentSymbol], depth: int = 0) -> Iterator[str]:
    for symbol in symbols:
        yield "  " * depth + f"{symbol.name}: {symbol.detail or ''}"
        yield from tree(symbol.children or (), depth + 1)


async def symbols(session: Session, uri: str) -> list:
    params = lsp.DocumentSymbolParams(lsp.TextDocumentIdentifier(uri))
    return list(await session.client.text_document_document_symbol_async(params) or ())


async def test_symbols_of_a_kernel(real: Session) -> None:
    uri = await opened(real, PRODUCT)
    (kernel,) = await symbols(real, uri)
    assert "estimated" in kernel.detail
    assert list(tree(kernel.children)) == [
        "for m in nl.affine_range(M // 128): 4 trips",
        "  for n in nl.affine_range(N // 512): 2 trips",
        "    acc: f32[128, 512] PSUM",
        "    for k in nl.affine_range(K // 128): 4 trips",
        "      a: bf16[128, 128] SBUF",
        "      b: bf16[128, 512] SBUF",
        "    out: bf16[128, 512] SBUF",
    ]
    # A line above moves everything, at once.
    real.change(uri, "\n" + PRODUCT)
    (moved,) = await symbols(real, uri)
    assert moved.selection_range.start.line == kernel.selection_range.start.line + 1
    # Half a line takes no symbol away.
    real.change(uri, PRODUCT.replace("nisa.nc_matmul(dst=acc", "nisa.nc_matmul(dst=acc[", 1))
    await real.diagnostics(uri)
    assert [s.name for s in await symbols(real, uri)] == ["product"]


async def test_symbols_folds_and_buffers_of_a_legacy_file(real: Session) -> None:
    uri = await opened(real, LEGACY, hierarchy=False, encoding=lsp.PositionEncodingKind.Utf8)
    flat = await symbols(real, uri)
    assert [(s.name, s.container_name) for s in flat] == [
        ("scaled", None),
        ("for i in nl.affine_range(2)", "scaled"),
        ("tile", "for i in nl.affine_range(2)"),
        ("tile", "for i in nl.affine_range(2)"),
        ("Helper", None),
        ("method", "Helper"),
    ]
    identifier = lsp.TextDocumentIdentifier(uri)
    params = lsp.FoldingRangeParams(identifier)
    found = await real.client.text_document_folding_range_async(params)
    folds = {(f.start_line, f.end_line, f.kind) for f in found}
    lines = LEGACY.split("\n")

    def at(needle: str) -> int:
        return next(n for n, line in enumerate(lines) if needle in line)

    assert (at("First"), at("Second"), lsp.FoldingRangeKind.Comment) in folds
    assert (at("import neuronxcc"), at("from neuronxcc"), lsp.FoldingRangeKind.Imports) in folds
    assert (at("# region"), at("# endregion"), lsp.FoldingRangeKind.Region) in folds
    assert (at("def scaled"), at("return out"), None) in folds
    assert (at("for i"), at("nl.store"), None) in folds
    assert (at("if i == 0"), at("tile = tile"), None) in folds
    assert (at("else:"), at("else:") + 3, None) in folds
    assert (at("nl.exp"), at("nl.exp") + 1, None) in folds
    await tokens_are_right(real, uri)


async def tokens_are_right(real: Session, uri: str) -> None:
    """Every token is a name in its memory; ranges and differences agree with the whole."""
    identifier = lsp.TextDocumentIdentifier(uri)
    client = real.client
    full = await client.text_document_semantic_tokens_full_async(
        lsp.SemanticTokensParams(identifier)
    )
    named = set(words(LEGACY, full.data))
    assert ("a", "hbm", True) in named and ("out", "hbm", True) in named
    assert ("tile", "sbuf", True) in named and ("tile", "sbuf", False) in named
    assert {name for name, _, _ in named} == {"a", "out", "tile"}
    place = lsp.Range(lsp.Position(0, 0), lsp.Position(12, 0))
    part = await client.text_document_semantic_tokens_range_async(
        lsp.SemanticTokensRangeParams(identifier, place)
    )
    assert list(part.data) == list(full.data)[: len(part.data)] and part.data
    real.change(uri, "\n" + LEGACY)
    delta = await client.text_document_semantic_tokens_full_delta_async(
        lsp.SemanticTokensDeltaParams(identifier, full.result_id)
    )
    data = list(full.data)
    for edit in delta.edits:
        data[edit.start : edit.start + edit.delete_count] = edit.data or []
    assert data == [full.data[0] + 1, *full.data[1:]]


def words(text: str, data: Iterable[int]) -> Iterator[tuple[str, str, bool]]:
    """Name, memory and whether it is a declaration, positions being UTF-8."""
    lines, numbers = text.split("\n"), iter(data)
    row = column = 0
    for line, start, length, _, modifiers in zip(*[numbers] * 5, strict=True):
        row, column = row + line, start if line else column + start
        name = lines[row].encode()[column : column + length].decode()
        memory = {2: "sbuf", 4: "psum", 8: "hbm"}[modifiers & ~1]
        yield name, memory, bool(modifiers & 1)


async def test_buffers_are_left_alone_where_that_is_not_wanted(real: Session) -> None:
    real.client.set_configuration({"semanticTokens": {"enabled": False}}, section="accelopt")
    uri = await opened(real, PRODUCT)
    params = lsp.SemanticTokensParams(lsp.TextDocumentIdentifier(uri))
    assert await real.client.text_document_semantic_tokens_full_async(params) is None
    plain = real.open("file:///tmp/plain.py", "def f(x):\n    for i in x:\n        print(i)\n")
    assert await symbols(real, plain) == []
    folds = lsp.FoldingRangeParams(lsp.TextDocumentIdentifier(plain))
    assert await real.client.text_document_folding_range_async(folds) is None


HOVERS = [
    ("nisa.dma_copy", 7, ["Every byte is read 2 times", "55 µs to 45.4 µs (estimated)"]),
    ("for m in", 1, ["4 iterations", "SBUF holds up to 1.25 KiB", "`b` 1 KiB", "40.6 µs"]),
    ("for k in", 4, ["32 over the whole kernel", "HBM: 5 MiB"]),
    ("acc = nl", 1, ["float32[128, 512] in PSUM", "2 KiB per partition"]),
    ("rhs.shape", 1, ["bfloat16[512, 1024], 1 MiB in HBM", "every byte 4 times", "line 21"]),
    ("moving=b", 1, ["`moving` of `nisa.nc_matmul`", "512 columns", "In SBUF"]),
    ("nl.psum", 5, ["`nl.psum`", "accumulates"]),
    ("nl.float32", 5, ["`nl.float32`", "4 bytes"]),
    ("lhsT.shape", 6, ["`tensor.shape`"]),
    ("nisa.nc_matmul", 7, ["Available on: trn1, trn2, trn3", "nki.isa.nc_matmul.html"]),
    ("K, M", 0, None),
    ("small tiled", 1, None),
    ("# accelopt", 4, None),
]


async def test_hovers_of_a_kernel(real: Session) -> None:
    uri = await opened(real, PRODUCT)
    for needle, inside, parts in HOVERS:
        page = await real.hover(uri, needle, inside)
        if parts is None:
            assert page is None, needle
        else:
            assert page is not None, needle
            assert not [part for part in parts if part not in page], page


async def test_each_call_of_a_line_has_its_own_cost(real: Session) -> None:
    uri = await opened(real, (KERNELS / "softer.py").read_text("utf-8"))
    for needle, wanted, other in (
        ("nl.exp", "x 4 `activation`", "tensor_scalar"),
        ("nl.subtract", "x 4 `tensor_scalar`", "activation"),
        ("nl.load", "x 4 `dma_copy`", "activation"),
        ("nl.ds", "nl.ds", "Here, estimated"),
    ):
        page = await real.hover(uri, needle, 4)
        assert page is not None, needle
        assert wanted in page, page
        assert other not in page, page


async def test_names_of_parts_of_tensors(real: Session) -> None:
    text = (KERNELS / "views.py").read_text("utf-8")
    uri = await opened(real, text, encoding=lsp.PositionEncodingKind.Utf8)
    whole = "bfloat16[128, 512] in SBUF"
    for needle, inside, parts in (
        ("left = tile", 1, ["`left`**: bfloat16[128, 256] in SBUF, a view of `tile`", whole]),
        ("dst=alias", 5, ["`alias`**: bfloat16[128, 512] in SBUF, a view of `tile`", whole]),
        ("src=part", 5, ["bfloat16[128, 512] in HBM, a view of `x`", "Read: 256 KiB"]),
        ("tile, spare", 1, ["`tile`**: bfloat16[128, 256] in SBUF, a view of `spare`"]),
        ("src=spare", 5, ["`spare`**: bfloat16[128, 512] in SBUF, a view of `tile`", whole]),
    ):
        page = await real.hover(uri, needle, inside)
        assert page is not None, needle
        assert not [part for part in parts if part not in page], page
    found = await real.client.text_document_semantic_tokens_full_async(
        lsp.SemanticTokensParams(lsp.TextDocumentIdentifier(uri))
    )
    named = {(name, memory) for name, memory, _ in words(text, found.data)}
    assert {("left", "sbuf"), ("alias", "sbuf"), ("part", "hbm"), ("view", "hbm")} < named


def test_strategies_come_with_their_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a model wrote is shown as it is: no link, no image, no HTML of its own."""
    monkeypatch.setenv("ACCELOPT_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    title = "Hoist <img src=x> [here](https://evil.example) **now**"
    experience = Experience(
        "abc123",
        title,
        "Load once.",
        ratio=1.5,
        tags=Tags(("dma_copy",), "dma", dialect="current", target="trn2"),
        origin=Origin(figures="simulated", run="run-7"),
        wins=2,
        losses=1,
    )
    memory = OptimizationMemory()
    id_ = memory.add(experience)
    memory.close()
    asked = Situation("kernel", ("dma_copy",), "dma", "current", "trn2")
    (found,) = strategies(asked)
    assert (found.title, found.ratio, found.wins, found.losses) == (title, 1.5, 2, 1)
    evidence = Path(found.page).read_text("utf-8")
    assert "Load once." in evidence and "run-7" in evidence
    line = strategy_line(found)
    assert "gained 1.50x, simulated; used again: 2 won, 1 lost" in line
    assert f"`accelopt memory show {id_}`" in line and "[evidence](file://" in line
    assert r"\<img src=x\>" in line and r"\[here\]\(https" in line and "**now**" not in line
    assert "<img src=x> [here](https://evil.example) **now**" in plain(line)
    assert strategies(evolve(asked, instructions=("iota",))) == ()
