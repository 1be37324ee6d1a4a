"""Completion, signature help and definitions over stdio, by marked places in small files.

Each file of ``cases/`` has the place marked by a caret and says in its first lines what is offered.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from attrs import define, field
from lsprotocol import types as lsp

from tests.server.conftest import Session

CASES = sorted((Path(__file__).parent / "cases").glob("*.py"))
MARK = "‸"
LEGACY = """import neuronxcc.nki.language as nl
from neuronxcc import nki


@nki.jit
def kernel(x):
    name = "größer 😋"; tile = nl.load(x)  # nl.load
    return helper(tile)
"""
DIRECTED = LEGACY.replace("@nki", "# accelopt: \n@nki")


@define
class Case:
    """A marked text and what its first lines expect."""

    text: str
    position: lsp.Position
    expected: list[tuple[str, str]] = field(factory=list)


def read_case(file: Path) -> Case:
    head, body = [], []
    for line in file.read_text("utf-8").splitlines(keepends=True):
        if line.startswith("#: "):
            kind, _, rest = line[3:].strip().partition(" ")
            head.append((kind, rest))
        else:
            body.append(line)
    text = "".join(body)
    before = text[: text.index(MARK)]
    place = lsp.Position(before.count("\n"), len(before) - before.rfind("\n") - 1)
    return Case(text.replace(MARK, ""), place, head)


async def completion(session: Session, uri: str, place: lsp.Position) -> list[lsp.CompletionItem]:
    params = lsp.CompletionParams(lsp.TextDocumentIdentifier(uri), place)
    found = await session.client.text_document_completion_async(params)
    items: list[lsp.CompletionItem] = list(found.items) if found is not None else []
    return sorted(items, key=lambda item: item.sort_text or item.label)


async def signature(session: Session, uri: str, place: lsp.Position) -> str | None:
    """The parameter that is marked; ``none`` if none is."""
    params = lsp.SignatureHelpParams(lsp.TextDocumentIdentifier(uri), place)
    found = await session.client.text_document_signature_help_async(params)
    if found is None or found.active_parameter is None:
        return "none"
    shown = found.signatures[0]
    label = shown.parameters[found.active_parameter].label
    assert not isinstance(label, str)
    return str(shown.label[label[0] : label[1]])


def check(kind: str, rest: str, items: list[lsp.CompletionItem], active: str | None) -> Any:
    """Whether one expectation holds; what was found otherwise."""
    labels = [item.label for item in items]
    named = {item.label: item for item in items}
    words = rest.split()
    if kind == "offers":
        return all(any(x.strip() == w for x in labels) for w in words) or labels
    if kind == "lacks":
        return not set(words) & set(labels) or labels
    if kind == "first":
        return labels[: len(words)] == words or labels[:5]
    if kind == "last":
        return rest in labels[-12:] or labels[-12:]
    if kind == "nothing":
        return not items or labels
    if kind == "deprecated":
        return all(named[w].tags for w in words) or labels
    if kind == "detail":
        label, _, text = rest.partition(" ")
        return text in (named[label].detail or "") or named[label].detail
    if kind == "signature":
        return active == rest or active
    raise AssertionError(f"no such expectation: {kind}")


async def test_what_marked_places_offer(real: Session) -> None:
    await real.start()
    wrong = []
    for number, file in enumerate(CASES):
        case = read_case(file)
        assert case.expected, file
        uri = real.open(f"file:///cases/{number}/{file.name}", case.text)
        items = await completion(real, uri, case.position)
        active = await signature(real, uri, case.position)
        for kind, rest in case.expected:
            found = check(kind, rest, items, active)
            if found is not True:
                wrong.append(f"{file.stem}: {kind} {rest}: {found}")
    assert not wrong, "\n".join(wrong)
    assert real.said() == []


@pytest.mark.parametrize("encoding", list(lsp.PositionEncodingKind))
async def test_places_behind_other_letters(session: Session, encoding: Any) -> None:
    await session.start(encoding=encoding)
    uri = session.open("file:///tmp/kernel.py", LEGACY)
    line = LEGACY.split("\n")[6]
    size = {"utf-8": lambda t: len(t.encode()), "utf-16": lambda t: len(t.encode("utf-16-le")) // 2}
    units = size.get(encoding.value, len)
    start, end = units(line[: line.index("nl.load")]), units(line[: line.index("(x)")])
    place = lsp.Position(6, end - 2)
    items = await completion(session, uri, place)
    load = next(item for item in items if item.label == "load")
    assert load.text_edit.range == lsp.Range(lsp.Position(6, start + 3), place)
    assert load.text_edit.new_text == "load"
    identifier = lsp.TextDocumentIdentifier(uri)
    hover = await session.client.text_document_hover_async(lsp.HoverParams(identifier, place))
    word = lsp.Range(lsp.Position(6, start), lsp.Position(6, end))
    assert hover.range == word
    params = lsp.DefinitionParams(identifier, place)
    links = await session.client.text_document_definition_async(params)
    assert isinstance(links, list | tuple)
    (link,) = links
    assert isinstance(link, lsp.LocationLink)
    assert link.origin_selection_range == word
    inside = lsp.Position(6, end + 1)
    assert await signature(session, uri, inside) == "src"


async def test_documentation_comes_when_it_is_asked_for(session: Session) -> None:
    await session.start()
    uri = session.open("file:///tmp/kernel.py", LEGACY.replace("helper(tile)", "nl."))
    items = await completion(session, uri, lsp.Position(7, len("    return nl.")))
    exp = next(item for item in items if item.label == "exp")
    assert exp.documentation is None
    resolved = await session.client.completion_item_resolve_async(exp)
    assert resolved.documentation.kind == lsp.MarkupKind.Markdown
    assert "```python\nnl.exp(x, *, dtype=None, mask=None)\n```" in resolved.documentation.value
    again = await session.client.completion_item_resolve_async(lsp.CompletionItem("other"))
    assert again.documentation is None


async def test_clients_that_know_little_get_plain_text(session: Session) -> None:
    await session.start(
        markdown=False, snippets=False, tags=False, offsets=False, links=False, hierarchy=False
    )
    text = f"{DIRECTED}    nl.tile_size."
    uri = session.open("file:///tmp/kernel.py", text)
    keys = await completion(session, uri, lsp.Position(4, len("# accelopt: ")))
    assert [k.text_edit.new_text for k in keys if k.label == "x="] == ["x="]
    sizes = await completion(session, uri, lsp.Position(9, len("    nl.tile_size.")))
    old = next(item for item in sizes if item.label == "psum_fmax")
    assert old.deprecated and not old.tags
    page = (await session.client.completion_item_resolve_async(old)).documentation
    assert page.kind == lsp.MarkupKind.PlainText
    assert "use nl.tile_size.psum_bank_fmax" in page.value and "*" not in page.value
    hover = await session.hover(uri, "nl.load(x)", 4)
    assert hover is not None
    assert hover.startswith("nl.load(src, *, mask=None, dtype=None)")
    assert "AWS documentation: https://" in hover and "`" not in hover
    identifier = lsp.TextDocumentIdentifier(uri)
    # One letter before the place takes two units.
    inside = lsp.Position(7, text.split("\n")[7].index("(x)") + 2)
    params = lsp.SignatureHelpParams(identifier, inside)
    shown = await session.client.text_document_signature_help_async(params)
    assert shown.signatures[0].parameters[0].label == "src"
    place = lsp.DefinitionParams(identifier, inside_of(text, "nl.load(x)"))
    assert isinstance(await session.client.text_document_definition_async(place), lsp.Location)


async def test_snippets_are_for_clients_that_fill_them_in(session: Session) -> None:
    await session.start()
    uri = session.open("file:///tmp/kernel.py", DIRECTED)
    keys = await completion(session, uri, lsp.Position(4, len("# accelopt: ")))
    found = {item.label: item for item in keys}
    assert found["x="].text_edit.new_text == "x=${1:bf16}[${2:128,512}]"
    assert found["x="].insert_text_format == lsp.InsertTextFormat.Snippet


def inside_of(text: str, needle: str, inside: int = 4) -> lsp.Position:
    before = text[: text.index(needle) + inside]
    return lsp.Position(before.count("\n"), len(before) - before.rfind("\n") - 1)


@pytest.mark.parametrize(
    ("needle", "inside", "holds"),
    [
        ("nl.load(x)", 4, "# nki.language.load"),
        ("nki.jit", 5, "# nki.jit"),
        ("nl.load(x)", 0, None),  # the module itself
        ("tile = ", 1, None),
        ("helper", 2, None),
        ("# nl.load", 6, None),
        ("größer", 2, None),
    ],
)
async def test_from_a_name_to_its_page(
    session: Session, needle: str, inside: int, holds: str | None
) -> None:
    await session.start()
    uri = session.open("file:///tmp/kernel.py", LEGACY)
    params = lsp.DefinitionParams(
        lsp.TextDocumentIdentifier(uri), inside_of(LEGACY, needle, inside)
    )
    found = await session.client.text_document_definition_async(params)
    if holds is None:
        assert found is None
        return
    page = Path(unquote(urlsplit(found[0].target_uri).path)).read_text("utf-8")
    assert page.startswith(holds)
    assert "## Legacy dialect" in page and "https://" in page
