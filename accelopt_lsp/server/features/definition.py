"""From a name of NKI to its documentation: a page that is written into the user's cache.

Names of the user's own are left to the Python server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from accelopt_lsp.nki.writing.scan import Where, dotted_at, where
from accelopt_lsp.server.places import place_at
from accelopt_lsp.workbench.reference import page_file

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App


def register(app: App) -> None:
    @app.server.on(lsp.TEXT_DOCUMENT_DEFINITION)
    async def definition(
        params: lsp.DefinitionParams,
    ) -> lsp.Location | list[lsp.LocationLink] | None:
        document = app.documents.get(params.text_document.uri)
        if document is None or not document.concerns_nki:
            return None
        place = place_at(app, document, params.position)
        found = dotted_at(place.code, place.offset)
        if found is None or where(place.text, found[1])[0] is not Where.CODE:
            return None
        written, start, end = found
        name = place.name_of(written, start)
        file = page_file(name, place.dialect) if name is not None else None
        if file is None:
            return None
        top = lsp.Range(lsp.Position(0, 0), lsp.Position(0, 0))
        if not app.client.definition_links:
            return lsp.Location(file.as_uri(), top)
        origin = document.index.range(start, end)
        return [lsp.LocationLink(file.as_uri(), top, top, origin)]
