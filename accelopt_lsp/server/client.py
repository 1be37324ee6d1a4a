"""What the client can do, read once from its capabilities."""

from __future__ import annotations

from attrs import frozen
from lsprotocol import types as lsp

from accelopt_lsp.server.markup import preferred


@frozen(slots=True)
class Client:
    """Abilities that decide how we answer. All False until ``initialize``."""

    pulls_diagnostics: bool = False
    refreshes_diagnostics: bool = False
    refreshes_hints: bool = False
    refreshes_lenses: bool = False
    resolves_hint_tooltips: bool = False
    action_literals: bool = False
    resolves_action_edits: bool = False
    code_descriptions: bool = False
    related_information: bool = False
    deprecated_tag: bool = False
    progress: bool = False
    configuration: bool = False
    registers_configuration: bool = False
    registers_watchers: bool = False
    versioned_edits: bool = False
    change_annotations: bool = False
    applies_edits: bool = False
    shows_documents: bool = False
    snippets: bool = False
    completion_tags: bool = False
    documentation_format: lsp.MarkupKind = lsp.MarkupKind.PlainText
    hover_format: lsp.MarkupKind = lsp.MarkupKind.Markdown
    signature_format: lsp.MarkupKind = lsp.MarkupKind.PlainText
    label_offsets: bool = False
    active_parameters: bool = False
    definition_links: bool = False
    hierarchical_symbols: bool = False
    refreshes_tokens: bool = False


def read_client(capabilities: lsp.ClientCapabilities) -> Client:
    """Digest of ``initialize``'s capabilities. Anything left out counts as unable."""
    text = capabilities.text_document
    workspace = capabilities.workspace
    window = capabilities.window
    publish = text.publish_diagnostics if text else None
    pull = text.diagnostic if text else None
    hint = text.inlay_hint if text else None
    action = text.code_action if text else None
    edit = workspace.workspace_edit if workspace else None
    hint_properties = hint.resolve_support.properties if hint and hint.resolve_support else ()
    edit_properties = action.resolve_support.properties if action and action.resolve_support else ()
    # Clients of LSP 3.17 describe their diagnostics under push even if they pull.
    describing = [c for c in (pull, publish) if c is not None]
    tags = [tag for c in describing if c.tag_support for tag in c.tag_support.value_set]
    watched = workspace.did_change_watched_files if workspace else None
    changed = workspace.did_change_configuration if workspace else None
    item = text.completion.completion_item if text and text.completion else None
    signature = text.signature_help.signature_information if text and text.signature_help else None
    parameters = signature.parameter_information if signature else None
    hover = text.hover if text else None
    return Client(
        pulls_diagnostics=pull is not None,
        refreshes_diagnostics=bool(
            workspace and workspace.diagnostics and workspace.diagnostics.refresh_support
        ),
        refreshes_hints=bool(
            workspace and workspace.inlay_hint and workspace.inlay_hint.refresh_support
        ),
        refreshes_lenses=bool(
            workspace and workspace.code_lens and workspace.code_lens.refresh_support
        ),
        resolves_hint_tooltips="tooltip" in hint_properties,
        action_literals=bool(action and action.code_action_literal_support),
        resolves_action_edits="edit" in edit_properties,
        code_descriptions=any(c.code_description_support for c in describing),
        related_information=any(c.related_information for c in describing),
        deprecated_tag=lsp.DiagnosticTag.Deprecated in tags,
        progress=bool(window and window.work_done_progress),
        configuration=bool(workspace and workspace.configuration),
        registers_configuration=bool(changed and changed.dynamic_registration),
        registers_watchers=bool(watched and watched.dynamic_registration),
        versioned_edits=bool(edit and edit.document_changes),
        change_annotations=bool(edit and edit.change_annotation_support),
        applies_edits=bool(workspace and workspace.apply_edit),
        shows_documents=bool(window and window.show_document and window.show_document.support),
        snippets=bool(item and item.snippet_support),
        completion_tags=bool(
            item
            and item.tag_support
            and lsp.CompletionItemTag.Deprecated in item.tag_support.value_set
        ),
        documentation_format=preferred(item.documentation_format if item else None),
        hover_format=preferred(hover.content_format if hover else None),
        signature_format=preferred(signature.documentation_format if signature else None),
        label_offsets=bool(parameters and parameters.label_offset_support),
        active_parameters=bool(signature and signature.active_parameter_support),
        definition_links=bool(text and text.definition and text.definition.link_support),
        hierarchical_symbols=bool(
            text
            and text.document_symbol
            and text.document_symbol.hierarchical_document_symbol_support
        ),
        refreshes_tokens=bool(
            workspace and workspace.semantic_tokens and workspace.semantic_tokens.refresh_support
        ),
    )
