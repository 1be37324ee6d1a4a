"""Calls that do not fit their signature, names that do not exist, kernels that raise."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from difflib import get_close_matches

from accelopt_lsp.analysis.rules.base import Context, Rule
from accelopt_lsp.analysis.rules.names import known_names
from accelopt_lsp.nki.apis import APIS
from accelopt_lsp.nki.diagnostics import Diagnostic, Fix, Severity


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
            near = get_close_matches(path, sorted(known | set(APIS)), n=1, cutoff=0.75)
            hint = f"; did you mean {near[0]}?" if near else ""
            node = finding.node.func if isinstance(finding.node, ast.Call) else finding.node
            fix = None
            if near:
                fix = Fix(
                    f"Replace by {near[0]}",
                    "replace-name",
                    {"line": line, "old": path.partition(".")[2], "new": near[0].partition(".")[2]},
                )
            yield self.diagnostic(context, node, f"{path} is no name of NKI{hint}", fix=fix)


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
