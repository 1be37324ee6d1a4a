"""Profile every kernel of a folder, two or more at a time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from accelopt_lsp.analysis.kernels import find_kernels
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.workbench.check import find_files
from accelopt_lsp.workbench.profile import ProfileReport, ProfileRequest, profile_kernel
from accelopt_lsp.workbench.requests import KernelRequest, RequestError, read_source
from accelopt_lsp.workbench.settings import SettingsError


@frozen(slots=True)
class FolderRow:
    """One kernel of a folder: its report, or why there is none.

    Attributes:
        path, function: the kernel.
        report: what profiling gave; None if it could not start.
        problem: why it could not start: an argument without a SPEC, a file that is no text.
    """

    path: Path
    function: str
    report: ProfileReport | None
    problem: str | None = None

    @property
    def fine(self) -> bool:
        """It ran, and no output was wrong."""
        profile = None if self.report is None else self.report.profile
        return profile is not None and profile.correct is not False

    def to_json(self) -> dict[str, Any]:
        """The report's object with the kernel's path."""
        place = {"path": str(self.path), "kernel": self.function}
        if self.report is not None:
            return {**self.report.to_json(), **place}
        return {"schema_version": 1, **place, "error": {"kind": "request", "message": self.problem}}


def kernels_of(paths: list[Path]) -> list[tuple[Path, str]]:
    """Every kernel in the Python files of these folders, in order.

    Raises:
        RequestError: a path does not exist.
    """
    found = []
    for path in find_files(paths):
        try:
            text = read_source(path)
        except RequestError:
            continue
        found += [(path, k.qualname) for k in find_kernels(Document.parse(text))]
    return found


async def profile_folder(
    request: ProfileRequest, kernels: list[tuple[Path, str]], *, jobs: int | None = None
) -> AsyncIterator[FolderRow]:
    """Profile kernels, in order, several at a time.

    Args:
        request: options for all of them; its kernel's path and function are replaced.
        jobs: kernels at a time; None takes one for two cores, as each has two processes.
    """
    width = asyncio.Semaphore(jobs or max(1, (os.cpu_count() or 2) // 2))

    async def one(path: Path, function: str) -> FolderRow:
        kernel: KernelRequest = evolve(request.kernel, path=path, function=function)
        async with width:
            try:
                report = await profile_kernel(evolve(request, kernel=kernel))
            except (RequestError, SettingsError) as error:
                return FolderRow(path, function, None, str(error))
        return FolderRow(path, function, report)

    tasks = [asyncio.ensure_future(one(path, function)) for path, function in kernels]
    try:
        for task in tasks:
            yield await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
