"""What a client has not declared and must therefore not be sent, by the LSP specification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Json = Any


class Declared:
    """A client's capabilities, and what breaks them in a message of the server."""

    def __init__(self, capabilities: Mapping[str, Json]) -> None:
        self.capabilities = capabilities

    def __call__(self, path: str, default: Json = None) -> Json:
        """The value at a dotted path; ``default`` where any part is missing or null."""
        found: Json = self.capabilities
        for name in path.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        return default if found is None else found

    @property
    def pulls(self) -> bool:
        return self("textDocument.diagnostic") is not None

    def result(self, method: str, found: Json) -> list[str]:
        """What is undeclared in the answer to a request of the client's."""
        check = _RESULTS.get(method)
        return [] if check is None or found is None else list(check(self, found))

    def heard(self, message: Mapping[str, Json]) -> list[str]:
        """What is undeclared in a request or notification of the server's."""
        method, params = message["method"], message.get("params")
        needed = _NEEDED.get(method)
        if needed is not None and not self(needed):
            return [f"{method} without {needed}"]
        check = _HEARD.get(method)
        return [] if check is None else list(check(self, params))


#: The ability that a request of the server's needs.
_NEEDED = {
    "workspace/applyEdit": "workspace.applyEdit",
    "workspace/configuration": "workspace.configuration",
    "workspace/workspaceFolders": "workspace.workspaceFolders",
    "workspace/inlayHint/refresh": "workspace.inlayHint.refreshSupport",
    "workspace/codeLens/refresh": "workspace.codeLens.refreshSupport",
    "workspace/semanticTokens/refresh": "workspace.semanticTokens.refreshSupport",
    "window/showDocument": "window.showDocument.support",
    "window/workDoneProgress/create": "window.workDoneProgress",
}


def _markup(declared: Declared, path: str, default: list[str], content: Json) -> Iterator[str]:
    """A page that is of a kind that the client does not show."""
    kind = content.get("kind") if isinstance(content, dict) else "plaintext"
    if kind not in declared(path, default):
        yield f"{kind} without {path}"


def _diagnostics(declared: Declared, found: Json) -> Iterator[str]:
    pull, push = "textDocument.diagnostic", "textDocument.publishDiagnostics"

    def able(name: str) -> Json:
        return declared(f"{pull}.{name}") or declared(f"{push}.{name}")

    for diagnostic in found:
        for member, ability in (
            ("codeDescription", "codeDescriptionSupport"),
            ("relatedInformation", "relatedInformation"),
            ("data", "dataSupport"),
        ):
            if diagnostic.get(member) is not None and not able(ability):
                yield f"{member} of a diagnostic"
        known = (able("tagSupport") or {}).get("valueSet", [])
        if unknown := set(diagnostic.get("tags") or ()) - set(known):
            yield f"the tags {unknown} of a diagnostic"


def _pulled(declared: Declared, found: Json) -> Iterator[str]:
    if not declared.pulls:
        yield "diagnostics were pulled"
    yield from _diagnostics(declared, found.get("items", ()))


def _pushed(declared: Declared, found: Json) -> Iterator[str]:
    if declared.pulls:
        yield "diagnostics are pushed and pulled"
    yield from _diagnostics(declared, found["diagnostics"])


def _hover(declared: Declared, found: Json) -> Iterator[str]:
    path = "textDocument.hover.contentFormat"
    yield from _markup(declared, path, ["markdown", "plaintext"], found["contents"])


_ITEM = "textDocument.completion.completionItem"


def _item(declared: Declared, found: Json) -> Iterator[str]:
    for member, ability in (
        ("labelDetails", "labelDetailsSupport"),
        ("insertTextMode", "insertTextModeSupport"),
        ("commitCharacters", "commitCharactersSupport"),
        ("preselect", "preselectSupport"),
        ("tags", "tagSupport"),
    ):
        if found.get(member) is not None and not declared(f"{_ITEM}.{ability}"):
            yield f"{member} of a suggestion"
    if found.get("insertTextFormat") == 2 and not declared(f"{_ITEM}.snippetSupport"):
        yield "a snippet"
    if "insert" in (found.get("textEdit") or {}) and not declared(f"{_ITEM}.insertReplaceSupport"):
        yield "an edit that inserts or replaces"
    if (page := found.get("documentation")) is not None:
        yield from _markup(declared, f"{_ITEM}.documentationFormat", ["plaintext"], page)


def _completion(declared: Declared, found: Json) -> Iterator[str]:
    if found.get("itemDefaults") and not declared("textDocument.completion.completionList"):
        yield "defaults of suggestions"
    for item in found["items"]:
        yield from _item(declared, item)


def _signature(declared: Declared, found: Json) -> Iterator[str]:
    path = "textDocument.signatureHelp.signatureInformation"
    for signature in found["signatures"]:
        for described in (signature, *(signature.get("parameters") or ())):
            if (page := described.get("documentation")) is not None:
                yield from _markup(declared, f"{path}.documentationFormat", ["plaintext"], page)
        offsets = any(not isinstance(p["label"], str) for p in signature.get("parameters") or ())
        if offsets and not declared(f"{path}.parameterInformation.labelOffsetSupport"):
            yield "a parameter by its offsets"
        active = signature.get("activeParameter") is not None
        if active and not declared(f"{path}.activeParameterSupport"):
            yield "the active parameter of a signature"


def _definition(declared: Declared, found: Json) -> Iterator[str]:
    many = found if isinstance(found, list) else [found]
    if any("targetUri" in one for one in many) and not declared(
        "textDocument.definition.linkSupport"
    ):
        yield "a definition as a link"


def _symbols(declared: Declared, found: Json) -> Iterator[str]:
    nested = any("location" not in one for one in found)
    if nested and not declared("textDocument.documentSymbol.hierarchicalDocumentSymbolSupport"):
        yield "symbols inside symbols"


def _edit(declared: Declared, found: Json) -> Iterator[str]:
    path = "workspace.workspaceEdit"
    if found.get("documentChanges") is not None and not declared(f"{path}.documentChanges"):
        yield "an edit with versions"
    if found.get("changeAnnotations") and not declared(f"{path}.changeAnnotationSupport"):
        yield "an edit with annotations"


def _actions(declared: Declared, found: Json) -> Iterator[str]:
    path = "textDocument.codeAction"
    for action in found:
        if isinstance(action.get("command"), str):  # a bare command, which every client knows
            continue
        if not declared(f"{path}.codeActionLiteralSupport"):
            yield f"the code action {action['title']!r}, which is no command"
        if action.get("disabled") and not declared(f"{path}.disabledSupport"):
            yield "a disabled code action"
        if "edit" not in action and "command" not in action:
            if "edit" not in declared(f"{path}.resolveSupport.properties", ()):
                yield f"the code action {action['title']!r} without its edit"
            if not declared(f"{path}.dataSupport"):
                yield "a code action with data"
        yield from _edit(declared, action.get("edit") or {})


def _action(declared: Declared, found: Json) -> Iterator[str]:
    yield from _edit(declared, found.get("edit") or {})


def _hints(declared: Declared, found: Json) -> Iterator[str]:
    lazy = declared("textDocument.inlayHint.resolveSupport.properties", ())
    for hint in found:
        if "tooltip" not in hint and "tooltip" not in lazy:
            yield f"the hint {hint['label']!r} without its tooltip"


def _applied(declared: Declared, found: Json) -> Iterator[str]:
    yield from _edit(declared, found["edit"])


def _registered(declared: Declared, found: Json) -> Iterator[str]:
    for one in found["registrations"]:
        group, _, name = one["method"].partition("/")
        if not declared(f"{group}.{name}.dynamicRegistration"):
            yield f"{one['method']} is registered"


_RESULTS = {
    "textDocument/diagnostic": _pulled,
    "textDocument/hover": _hover,
    "textDocument/completion": _completion,
    "completionItem/resolve": _item,
    "textDocument/signatureHelp": _signature,
    "textDocument/definition": _definition,
    "textDocument/documentSymbol": _symbols,
    "textDocument/codeAction": _actions,
    "codeAction/resolve": _action,
    "textDocument/inlayHint": _hints,
}
_HEARD = {
    "textDocument/publishDiagnostics": _pushed,
    "workspace/applyEdit": _applied,
    "client/registerCapability": _registered,
}
