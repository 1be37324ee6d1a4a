"""Calls that do not fit their signature, names that do not exist, kernels that raise."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from difflib import get_close_matches

from attrs import evolve

from accelopt_lsp.analysis.rules.base import Context, Rule
from accelopt_lsp.analysis.rules.migration.scan import canonical_name, scan
from accelopt_lsp.analysis.rules.names import known_names
from accelopt_lsp.nki.apis import APIS
from accelopt_lsp.nki.diagnostics import Diagnostic, Fix, Severity
from accelopt_lsp.nki.dialects import Dialect, unavailable
from accelopt_lsp.nki.reference.names import find_name


class BadCall(Rule):
    """## What it does
    Finds calls whose arguments do not fit the function's signature in the file's dialect.

    ## Why
    They raise when the kernel is traced.

    ## Example
    ```python
    nisa.tensor_copy(src=acc)  # current dialect: dst is missing
    ```

    ## Use instead
    The signature in the message. The two dialects differ: current `nki.isa` calls take `dst`
    first and return nothing, legacy ones return a tile.
    """

    code = "R101"
    name = "bad-call"
    severity = Severity.WARNING

    def findings(self, context: Context) -> Iterator[Diagnostic]:
        """With a fix where an instruction is called as if it returned its result."""
        for finding in context.machine.findings:
            if finding.code != self.code:
                continue
            fix = None
            if "missing" in finding.message and _returns(context, finding.node):
                place = {"line": finding.node.lineno, "column": finding.node.col_offset}  # type: ignore[attr-defined]
                fix = Fix("Declare the tile that is written", "declare-dst", place, safe=True)
            yield self.diagnostic(
                context, finding.node, finding.message, severity=finding.severity, fix=fix
            )


def _returns(context: Context, node: ast.AST) -> bool:
    """Whether the result of a ``nki.isa`` call of a current kernel is assigned."""
    if context.kernel.dialect is not Dialect.CURRENT:
        return False
    found = scan(context.document, context.kernel)
    assigned = found is not None and any(
        isinstance(n, ast.Assign) and n.value is node for n in found.nodes
    )
    name = canonical_name(node.func, context.kernel.aliases) if isinstance(node, ast.Call) else None
    return assigned and name is not None and name.startswith("nisa.")


class UnknownName(Rule):
    """## What it does
    Finds names of `nki.language` and `nki.isa` that no version of either dialect documents.

    ## Why
    Mostly a typing mistake, which raises when the kernel is traced.

    ## Example
    ```python
    nisa.tensor_coppy(dst=a, src=b)
    ```

    ## Use instead
    The name that the message suggests.
    """

    code = "R103"
    name = "unknown-name"
    severity = Severity.WARNING

    def check(self, context: Context) -> Iterator[Diagnostic]:
        known = known_names()
        seen: set[tuple[str, int]] = set()
        for finding in context.machine.findings:
            path = finding.message
            line = getattr(finding.node, "lineno", 0)
            if finding.code != self.code or path in known or (path, line) in seen:
                continue
            seen.add((path, line))
            near = self._meant(context, path, known)
            hint = f"; did you mean {near}?" if near else ""
            node = finding.node.func if isinstance(finding.node, ast.Call) else finding.node
            fix = None
            if near:
                fix = Fix(
                    f"Replace by {near}",
                    "replace-name",
                    {"line": line, "old": path.partition(".")[2], "new": near.partition(".")[2]},
                )
            yield self.diagnostic(context, node, f"{path} is no name of NKI{hint}", fix=fix)

    @staticmethod
    def _meant(context: Context, path: str, known: frozenset[str]) -> str:
        """The nearest name, if possible one that this kernel can use; empty if none is near."""
        near = get_close_matches(path, sorted(known | set(APIS)), n=5, cutoff=0.75)
        dialect, target = context.kernel.dialect, context.machine.target.name
        for candidate in near:
            name = find_name(candidate)
            if name is not None and not name.missing(dialect, target, context.nki_version):
                return candidate
        return near[0] if near else ""


class WrongVersion(Rule):
    """## What it does
    Finds functions that the file's dialect does not have, or not in the NKI version in force.

    ## Why
    They raise when the kernel is traced. The version is `nki-version` of the settings or of the
    directive; while it is unknown, only names that no version of the dialect has are reported.

    ## Example
    ```python
    # accelopt: x=f32[128,512] nki-version=0.5
    nl.fori_loop(0, 8, body)  # since 0.6
    ```

    ## Use instead
    What the message names, or the version that the kernel is for.
    """

    code = "R104"
    name = "wrong-version"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        dialect = context.kernel.dialect
        for finding in context.machine.findings:
            entry = APIS.get(finding.message) if finding.code == self.code else None
            problem = unavailable(entry, dialect, context.nki_version) if entry else ""
            if problem:
                node = finding.node.func if isinstance(finding.node, ast.Call) else finding.node
                yield self.diagnostic(context, node, problem)


class KernelRaises(Rule):
    """## What it does
    Finds asserts, `raise` statements and unpackings that fail with the arguments that are known.

    ## Why
    The kernel stops there; nothing after it can be analyzed.

    ## Example
    ```python
    # accelopt: x=f32[100,512]
    assert x.shape[0] % 128 == 0
    ```

    ## Use instead
    Arguments that the kernel is made for, or a kernel that takes these.
    """

    code = "A001"
    name = "kernel-raises"
    severity = Severity.WARNING

    def check(self, context: Context) -> Iterator[Diagnostic]:
        """A hint where arguments were found out: a call site's need not fit this kernel."""
        for found in self.findings(context):
            yield evolve(found, severity=Severity.HINT) if context.guessed else found
