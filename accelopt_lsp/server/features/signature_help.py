"""Signature help inside calls of NKI, with the parameter that is being written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types as lsp

from accelopt_lsp.nki.reference.pages import short_page
from accelopt_lsp.nki.writing.signatures import ShownCall, shown_call
from accelopt_lsp.server.markup import markup
from accelopt_lsp.server.places import place_at
from accelopt_lsp.server.positions import units

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App


def register(app: App) -> None:
    @app.server.on(
        lsp.TEXT_DOCUMENT_SIGNATURE_HELP,
        lsp.SignatureHelpOptions(trigger_characters=["(", ","], retrigger_characters=[")", "="]),
    )
    async def help_(params: lsp.SignatureHelpParams) -> lsp.SignatureHelp | None:
        document = app.documents.get(params.text_document.uri)
        if document is None or not document.concerns_nki:
            return None
        place = place_at(app, document, params.position)
        call = shown_call(place)
        if call is None:
            return None
        page = short_page(call.name, place.dialect, place.hardware, place.version)
        # The signature itself is shown already.
        page = page.split("```\n\n", 1)[-1] if page.startswith("```") else page
        shown = lsp.SignatureInformation(
            label=call.label,
            documentation=markup(page, app.client.signature_format),
            parameters=_parameters(app, call),
            active_parameter=call.active if app.client.active_parameters else None,
        )
        return lsp.SignatureHelp([shown], 0, call.active)


def _parameters(app: App, call: ShownCall) -> list[lsp.ParameterInformation]:
    encoding = "utf-16"  # offsets in labels are, whatever positions are in
    return [
        lsp.ParameterInformation(
            label=(units(call.label[: p.start], encoding), units(call.label[: p.end], encoding))
            if app.client.label_offsets
            else p.text,
            documentation=markup(p.documentation, app.client.signature_format)
            if p.documentation
            else None,
        )
        for p in call.parameters
    ]
