"""What earlier checks found, kept in the user's cache folder.

An entry is found by everything that decides about a file's findings: path, text, settings, the
target that was asked for, and this package's own code. It names the other files that the findings
rest on, those included that were looked for and are absent, and counts only while these are
what they were. Entries that cannot be read are as good as none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import asdict, frozen

from accelopt_lsp.nki.diagnostics import Diagnostic
from accelopt_lsp.profiler.store import Store, cache_dir, code_version
from accelopt_lsp.workbench.settings import Settings

if TYPE_CHECKING:
    import cattrs

    from accelopt_lsp.analysis import FileAnalysis

__all__ = ["CheckCache", "Checked", "cache_dir", "check_key"]
FORMAT = 1
_ROOMS = ("nki", "analysis", "workbench")
_MAX_BYTES_READ = 2_000_000
"""Larger files are not read by the analysis either."""


@frozen(slots=True)
class Checked:
    """What the analysis of one text found.

    Attributes:
        diagnostics: in the order of the text.
        kernels: how many there are.
        unknown: how many of them lack an argument's SPEC.
        dependencies: other files by absolute path with digests of their texts, None for absent;
            ``FOLDER/**`` stands for a whole project.
    """

    diagnostics: tuple[Diagnostic, ...]
    kernels: int
    unknown: int
    dependencies: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(cls, analysis: FileAnalysis) -> Checked:
        dependencies = tuple((d.path, d.digest) for d in analysis.dependencies)
        needs = [k.arguments for k in analysis.kernels if k.arguments.reference is None]
        unknown = sum(bool(arguments.missing) for arguments in needs)
        return cls(analysis.diagnostics, len(analysis.kernels), unknown, dependencies)


class CheckCache:
    """Findings of earlier checks.

    Args:
        folder: where it lives; created when it is first needed.
    """

    def __init__(self, folder: Path) -> None:
        self._store = Store(folder / f"checks-{FORMAT}.sqlite3")
        self._digests: dict[str, str | None] = {}

    def find(self, keys: Iterable[str]) -> dict[str, Checked]:
        """What is known under these keys and still holds."""
        found: dict[str, Checked] = {}
        damaged: list[str] = []
        converter = _converter()
        for key, data in self._store.find(list(keys)).items():
            try:
                checked = converter.structure(json.loads(data), Checked)
            except Exception:  # noqa: BLE001 - whatever is wrong with it
                damaged.append(key)
                continue
            if all(self._digest(path) == was for path, was in checked.dependencies):
                found[key] = checked
        if damaged:
            self._store.remove(damaged)
        return found

    def keep(self, results: Mapping[str, Checked]) -> None:
        """Remember results."""
        converter = _converter()
        self._store.put(
            {k: json.dumps(converter.unstructure(v)).encode() for k, v in results.items()}
        )

    def _digest(self, path: str) -> str | None:
        if path not in self._digests:
            self._digests[path] = _digest_of_file(Path(path))
        return self._digests[path]


def check_key(path: Path, text: str, settings: Settings, target: str | None) -> str:
    """Everything that decides about a file's findings, other files apart."""
    values = [
        FORMAT,
        code_version(*_ROOMS),
        str(path.absolute()),
        hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        asdict(settings),
        target,
    ]
    return hashlib.sha256(json.dumps(values, default=str).encode()).hexdigest()


def _digest_of_file(path: Path) -> str | None:
    """Digest of a file's text, as the analysis makes it."""
    from accelopt_lsp.analysis.callers import project_digest
    from accelopt_lsp.analysis.files import WHOLE_PROJECT
    from accelopt_lsp.analysis.workspace import Workspace, read_text

    if path.name == WHOLE_PROJECT:
        return project_digest(Workspace(), path.parent)
    text = read_text(path, _MAX_BYTES_READ)
    if text is None:
        return None
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _converter() -> cattrs.Converter:
    import cattrs

    converter = cattrs.Converter(forbid_extra_keys=True)
    converter.register_structure_hook(Any, lambda value, _: value)
    return converter
