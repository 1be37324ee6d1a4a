"""What is wrong with the text itself: syntax, directives."""

from __future__ import annotations

from collections.abc import Iterator

from accelopt_lsp.analysis.directives import directive_diagnostics, suppression_diagnostics
from accelopt_lsp.analysis.rules.base import FileContext, Rule, Tier
from accelopt_lsp.nki.diagnostics import Diagnostic, Severity


class SyntaxProblem(Rule):
    """## What it does
    Reports text that is no valid Python.

    ## Why
    Nothing can be run or analyzed at that place; the rest of the file still is.

    ## Example
    ```python
    for i in range(8)
        ...
    ```

    ## Use instead
    ```python
    for i in range(8):
        ...
    ```
    """

    code = "S001"
    name = "syntax-error"
    tier = Tier.SYNTAX

    def check_file(self, context: FileContext) -> Iterator[Diagnostic]:
        yield from context.document.syntax_errors()


class DirectiveProblem(Rule):
    """## What it does
    Reports `# accelopt:` comments that cannot be read, or that name no parameter of the kernel.

    ## Why
    The kernel is analyzed and run with what the directive says; a part that is not understood
    is left out.

    ## Example
    ```python
    # accelopt: x=f99[128]
    ```

    ## Use instead
    `NAME=SPEC` items separated by blanks, with SPEC as in `bf16[128,512]`, `1e-5`, `nl.bfloat16`;
    and `target=trn1`, `reference=PATH`, `grid=2`.
    """

    code = "D001"
    name = "bad-directive"
    severity = Severity.WARNING
    tier = Tier.SYNTAX

    def check_file(self, context: FileContext) -> Iterator[Diagnostic]:
        from accelopt_lsp.analysis.rules import known_codes

        for kernel in context.kernels:
            yield from directive_diagnostics(context.document, kernel)
        yield from suppression_diagnostics(context.document, known_codes())
