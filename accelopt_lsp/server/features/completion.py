"""Completion of NKI's names, keywords and directives; documentation comes when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from accelopt_lsp.nki.dialects import Dialect, is_version
from accelopt_lsp.nki.reference.names import find_name
from accelopt_lsp.nki.reference.pages import short_page
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.nki.writing.completion import complete
from accelopt_lsp.nki.writing.scan import Where, where
from accelopt_lsp.nki.writing.suggestions import Group, Suggestion
from accelopt_lsp.server.analyses import WorkerError
from accelopt_lsp.server.markup import markup
from accelopt_lsp.server.places import place_at
from accelopt_lsp.server.positions import LineIndex

if TYPE_CHECKING:
    from accelopt_lsp.nki.writing.place import Place
    from accelopt_lsp.server.app import App

_KINDS = {
    Group.MODULE: lsp.CompletionItemKind.Module,
    Group.FUNCTION: lsp.CompletionItemKind.Function,
    Group.METHOD: lsp.CompletionItemKind.Method,
    Group.TYPE: lsp.CompletionItemKind.Class,
    Group.ENUM: lsp.CompletionItemKind.Enum,
    Group.MEMBER: lsp.CompletionItemKind.EnumMember,
    Group.CONSTANT: lsp.CompletionItemKind.Constant,
    Group.ATTRIBUTE: lsp.CompletionItemKind.Field,
    Group.KEYWORD: lsp.CompletionItemKind.Variable,
    Group.VALUE: lsp.CompletionItemKind.Value,
    Group.DIRECTIVE: lsp.CompletionItemKind.Keyword,
}
_COMMENT_TRIGGERS = ("[", ":")
"""Typed characters that ask for suggestions in comments alone."""


def register(app: App) -> None:
    codes: list[tuple[str, str]] = []

    @app.server.on(
        lsp.TEXT_DOCUMENT_COMPLETION,
        lsp.CompletionOptions(
            trigger_characters=[".", "=", *_COMMENT_TRIGGERS], resolve_provider=True
        ),
    )
    async def completion(params: lsp.CompletionParams) -> lsp.CompletionList | None:
        document = app.documents.get(params.text_document.uri)
        if document is None:
            return None
        line = document.index.line(params.position.line)
        if not document.concerns_nki and not line.lstrip().startswith(("import", "from")):
            return None
        place, index = place_at(app, document, params.position), document.index
        in_comment = where(place.text, place.offset)[0] is Where.COMMENT
        typed = params.context.trigger_character if params.context is not None else None
        if typed in _COMMENT_TRIGGERS and not in_comment:
            return None
        if in_comment and not codes and "ignore" in line:
            codes.extend(await _rule_codes(app))
        place.codes = tuple(codes)
        items = [_item(app, place, index, suggestion) for suggestion in complete(place)]
        return lsp.CompletionList(is_incomplete=False, items=items) if items else None

    @app.server.on(lsp.COMPLETION_ITEM_RESOLVE)
    async def resolve(item: lsp.CompletionItem) -> lsp.CompletionItem:
        page = _page(item.data)
        if page is not None:
            item.documentation = markup(page, app.client.documentation_format)
        return item


def _page(data: object) -> str | None:
    """The page that an item's data names; None if they are not as we gave them."""
    if not isinstance(data, dict):
        return None
    name, version = find_name(str(data.get("name"))), data.get("version")
    try:
        dialect = Dialect(str(data.get("dialect")))
        target = get_target(str(data.get("target"))).name
    except ValueError:
        return None
    known = version if isinstance(version, str) and is_version(version) else None
    return None if name is None else short_page(name, dialect, target, known)


async def _rule_codes(app: App) -> tuple[tuple[str, str], ...]:
    try:
        found: tuple[tuple[str, str], ...] = await app.worker.request("codes", None, urgent=True)
    except WorkerError:
        return ()
    return found


def _item(app: App, place: Place, index: LineIndex, suggestion: Suggestion) -> lsp.CompletionItem:
    snippet = suggestion.snippet if app.client.snippets else None
    item = lsp.CompletionItem(
        label=suggestion.label,
        kind=_KINDS[suggestion.group],
        detail=suggestion.detail or None,
        documentation=suggestion.documentation or None,
        sort_text=f"{suggestion.order}{suggestion.label}",
        filter_text=suggestion.label,
        insert_text_format=lsp.InsertTextFormat.Snippet if snippet else None,
        text_edit=lsp.TextEdit(
            index.range(suggestion.start, place.offset), snippet or suggestion.label
        ),
    )
    if suggestion.deprecated:
        item.deprecated = None if app.client.completion_tags else True
        item.tags = [lsp.CompletionItemTag.Deprecated] if app.client.completion_tags else None
    if suggestion.path is not None:
        item.data = {
            "name": suggestion.path,
            "dialect": place.dialect.value,
            "target": place.hardware,
            "version": place.version,
        }
    return item
