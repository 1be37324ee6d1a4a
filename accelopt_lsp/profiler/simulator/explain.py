"""Errors explained in the terms of the kernel's file."""

from __future__ import annotations

import os
from types import CodeType, TracebackType

import accelopt_lsp
from accelopt_lsp.profiler.base import Failure, FailureKind
from accelopt_lsp.profiler.simulator import hook
from accelopt_lsp.profiler.simulator.errors import (
    ArgumentFault,
    InstructionLimit,
    KernelNotFound,
    KernelRejected,
    OutOfTime,
    ReferenceFault,
    SandboxViolation,
    UnsupportedByKernel,
)
from accelopt_lsp.profiler.simulator.source import Sources

OUR_FILES = os.path.dirname(os.path.abspath(accelopt_lsp.__file__)) + os.sep


def failure_of(error: BaseException, sources: Sources) -> Failure:
    """Explain an error in the terms of the kernel's file."""
    line, column, trace = _where(error.__traceback__, sources)
    own = getattr(error, "line", None)
    if isinstance(own, int):
        line, column = own, None
    kind, message, code = FailureKind.EXCEPTION, f"{type(error).__name__}: {error}", None
    match error:
        case KernelRejected():
            kind, message, code = FailureKind.REJECTED, str(error), error.code
        case UnsupportedByKernel() | hook.UnsupportedImport():
            kind, message = FailureKind.UNSUPPORTED, str(error)
        case InstructionLimit():
            kind, message = FailureKind.TIMEOUT, str(error)
        case OutOfTime():
            kind, message = FailureKind.TIMEOUT, str(error)
        case ArgumentFault():
            kind, message, line, column = FailureKind.ARGUMENTS, str(error), None, None
        case ReferenceFault():
            kind, message, line, column = FailureKind.REFERENCE, str(error), None, None
        case KernelNotFound():
            kind, message, line, column = FailureKind.NOT_FOUND, str(error), None, None
        case SandboxViolation():
            kind, message = FailureKind.SANDBOX, str(error)
        case MemoryError():
            kind = FailureKind.MEMORY
            message = "the kernel needs more memory than it may use"
        case RecursionError():
            message = "RecursionError: the kernel calls itself without end"
        case SyntaxError() if error.filename in (sources.main, None, "<unknown>"):
            kind, message = FailureKind.SYNTAX, f"syntax error: {error.msg}"
            line, column = error.lineno, error.offset
        case ImportError() if _names_nki(error):
            kind = FailureKind.UNSUPPORTED
            message = f"accelopt's simulator does not know {error.name}: {error}"
        case TypeError() if line is None and not trace:
            kind = FailureKind.ARGUMENTS
        case SystemExit():
            message = "the kernel called sys.exit"
        case KeyboardInterrupt() | GeneratorExit():
            message = f"the kernel raised {type(error).__name__}"
    return Failure(kind, _limited(message), line, column, code, trace)


def _names_nki(error: ImportError) -> bool:
    return (error.name or "").partition(".")[0] in hook.ROOTS


def _limited(text: str, limit: int = 2000) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _where(
    tb: TracebackType | None, sources: Sources
) -> tuple[int | None, int | None, tuple[tuple[str, int, str], ...]]:
    """Innermost place in the kernel's file, and the stack through user code."""
    line = column = None
    trace: list[tuple[str, int, str]] = []
    while tb is not None:
        code = tb.tb_frame.f_code
        file = code.co_filename
        if not file.startswith((OUR_FILES, "<")):
            trace.append((file, tb.tb_lineno, sources.text(file, tb.tb_lineno)[:300]))
        if file == sources.main:
            line, column = tb.tb_lineno, _column(code, tb.tb_lasti, sources)
        tb = tb.tb_next
    return line, column, tuple(trace[-20:])


def _column(code: CodeType, lasti: int, sources: Sources) -> int | None:
    """Column of an instruction, from 1, in code points."""
    for position, (line, _, start, _) in enumerate(code.co_positions()):
        if position == lasti // 2:
            if start is None or line is None:
                return None
            lines = sources.texts.get(code.co_filename, "").splitlines()
            text = lines[line - 1] if 0 < line <= len(lines) else ""
            return len(text.encode()[:start].decode(errors="ignore")) + 1
    return None
