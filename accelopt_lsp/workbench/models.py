"""Language models of an optimization: settings, records of exchanges, the static screen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import cattrs
from cattrs.errors import BaseValidationError

from accelopt_lsp.agents.database import DatabaseProblem
from accelopt_lsp.agents.off_loop import off_loop
from accelopt_lsp.agents.store import RunStore
from accelopt_lsp.agents.verify import Screen
from accelopt_lsp.analysis.files import analyze_kernel
from accelopt_lsp.analysis.kernels import find_kernels, kernel_named
from accelopt_lsp.analysis.results import AnalysisOptions
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.diagnostics import Diagnostic, Severity
from accelopt_lsp.profiler.base import Failure, FailureKind
from accelopt_lsp.workbench.requests import RequestError, ResolvedKernel
from accelopt_lsp.workbench.settings import other_table

if TYPE_CHECKING:
    from accelopt_lsp.agents.llm.client import ChatModels, Exchange, Recorder

REJECTIONS = ("R", "S")
"""Codes whose errors are sure to be rejected when the kernel is compiled."""


def models_for(
    path: Path,
    given: Mapping[str, Any],
    recorder: Recorder,
    note: Callable[[str], None] | None = None,
    on_text: Callable[[str, int], None] | None = None,
) -> ChatModels:
    """The models of a run.

    Args:
        path: the kernel's file, whose project may name models.
        given: settings that win, such as options of a command; None values are skipped.
        recorder: keeps exchanges.
        note: told what the user should know about an endpoint.
        on_text: told the role and the characters of a reply that have arrived.

    Raises:
        RequestError: a setting is missing or wrong; the message says what to set.
    """
    from accelopt_lsp.agents.llm.client import ChatModels
    from accelopt_lsp.agents.llm.settings import LlmSettingsError, llm_settings

    try:
        settings = llm_settings(other_table(path, "llm"), given)
        settings.check()
    except LlmSettingsError as error:
        raise RequestError(str(error)) from None
    return ChatModels(settings, recorder, note=note, on_text=on_text)


def recorder_for(
    store: RunStore | None,
    run: Callable[[], str | None],
    replay: str | None,
    note: Callable[[str], None],
) -> Recorder:
    """Keeps a run's exchanges in the store, and finds those that it (or ``replay``) has.

    Args:
        run: the run's id, once it is known.
        replay: id of a recorded run whose replies are taken instead of a model's.
        note: told once if the store cannot be written.
    """
    from accelopt_lsp.agents.llm.client import Recorder

    if store is None:
        return Recorder(live=replay is None)

    def find(key: str) -> Exchange | None:
        where = replay or run()
        data = store.exchange(where, key) if where else None
        return _exchange(data) if data is not None else None

    def save(exchange: Exchange) -> None:
        name = run()
        if name is None:
            return
        data = attrs.asdict(exchange)
        spent = exchange.spent
        data |= {"tokens": spent.prompt + spent.completion, "cost_usd": spent.cost_usd}
        try:
            store.record_exchange(name, exchange.key, data)
        except DatabaseProblem as problem:
            note(f"{problem}; not all replies of models are recorded")

    return Recorder(find, save, live=replay is None)


def _exchange(data: Mapping[str, Any]) -> Exchange | None:
    """A stored exchange; None if it cannot be read, so that the model is asked again."""
    from accelopt_lsp.agents.llm.client import Exchange

    try:
        return cattrs.Converter().structure(data, Exchange)
    except (BaseValidationError, KeyError, TypeError, ValueError):
        return None


def static_screen(kernel: ResolvedKernel) -> Screen:
    """A check of new attempts by the static rules: what cannot compile is not run.

    Only errors that the baseline does not have count: a rule that is wrong about this kernel
    must not refuse all of its versions.
    """
    known = cache(lambda: {(d.code, d.message) for d in _errors(kernel, kernel.text)})

    def fresh_errors(source: str) -> list[Diagnostic]:
        return [d for d in _errors(kernel, source) if (d.code, d.message) not in known()]

    async def screen(source: str) -> Failure | None:
        fresh = await off_loop(lambda: fresh_errors(source))
        if not fresh:
            return None
        first = fresh[0]
        more = f" (and {len(fresh) - 1} more)" if len(fresh) > 1 else ""
        return Failure(
            FailureKind.REJECTED,
            first.message + more,
            first.span.start.line,
            first.span.start.column,
            first.code,
        )

    return screen


def _errors(kernel: ResolvedKernel, text: str) -> list[Diagnostic]:
    document = Document.parse(text)
    source = kernel_named(find_kernels(document), kernel.source.qualname)
    found = [*document.syntax_errors()]
    if source is not None:
        options = AnalysisOptions(target=kernel.target, overrides=kernel.arguments.values)
        found += analyze_kernel(document, source, path=kernel.path, options=options).diagnostics
    return [d for d in found if d.severity is Severity.ERROR and d.code.startswith(REJECTIONS)]
