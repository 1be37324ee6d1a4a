"""Texts as the client can show them: Markdown, or the same as plain text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lsprotocol import types as lsp

_FENCE = re.compile(r"^```\w*\n?", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]*)\)")
_RULE = re.compile(r"^---\n+", re.MULTILINE)
_HEADING = re.compile(r"^#+ ", re.MULTILINE)
_EMPHASIS = re.compile(r"\*\*(.+?)\*\*")
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+\-.!<>|&~])")
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+.!<>|&~-])")


def markup(page: str, format: lsp.MarkupKind) -> lsp.MarkupContent:
    """A Markdown page in the format that the client prefers."""
    if format is lsp.MarkupKind.PlainText:
        return lsp.MarkupContent(format, plain(page))
    return lsp.MarkupContent(lsp.MarkupKind.Markdown, page)


def preferred(formats: Sequence[lsp.MarkupKind | str] | None) -> lsp.MarkupKind:
    """The first of the client's formats; a client that names none shows plain text."""
    return lsp.MarkupKind(formats[0]) if formats else lsp.MarkupKind.PlainText


def plain(page: str) -> str:
    """Markdown of ours without its marks."""
    text = _FENCE.sub("", page)
    text = _RULE.sub("\n", _HEADING.sub("", text))
    text = _LINK.sub(lambda m: m[1] if m[2].startswith("file:") else f"{m[1]}: {m[2]}", text)
    text = _EMPHASIS.sub(r"\1", text)
    return _ESCAPED.sub(r"\1", text.replace("`", ""))


def escaped(text: str) -> str:
    """A text of others as Markdown that shows it as it is: no markup, links or HTML of theirs."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
