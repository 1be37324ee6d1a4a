"""What the worker changes in texts: fixes, suppressions, targets. Nothing is written to a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from accelopt_lsp.nki.diagnostics import Fix
from accelopt_lsp.server.snapshot import Request


def fix(request: Request) -> str | None:
    """The text with a diagnostic's fix applied; None where the rewrite does not apply."""
    from accelopt_lsp.rewrites import NotApplicable
    from accelopt_lsp.workbench.fixes import apply_fix

    details = request.details
    asked: Fix = details["fix"]
    try:
        return apply_fix(
            request.text,
            asked,
            function=request.function,
            arguments=details["arguments"],
            target=details["target"],
        )
    except NotApplicable:
        return None


def fix_all(request: Request) -> str:
    """The text with all of its safe fixes applied."""
    from accelopt_lsp.workbench.fixes import fix_text
    from accelopt_lsp.workbench.settings import usable_settings

    path = Path(request.path)
    settings, _ = usable_settings(path, request.settings)
    return fix_text(request.text, path, settings)[0]


def suppress(request: Request) -> str | None:
    """The text with a rule switched off on a line, or in the whole file."""
    from accelopt_lsp.workbench import comments

    code, line = str(request.details["code"]), request.details["line"]
    if line is None:
        return comments.suppress_in_file(request.text, code)
    return comments.suppress(request.text, int(line), code)


def retarget(request: Request) -> str | None:
    """The text with a kernel's directive naming another target."""
    from accelopt_lsp.workbench.comments import with_target

    return with_target(request.text, request.function or "", str(request.details["target"]))


HANDLERS: Mapping[str, Callable[[Any], Any]] = {
    "fix": fix,
    "fix_all": fix_all,
    "suppress": suppress,
    "retarget": retarget,
}
