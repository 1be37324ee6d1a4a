"""Pages on NKI's names as files, for whoever can open a file but not a text."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_cache_path

import accelopt_lsp
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.reference.names import Name, NameKind, find_name
from accelopt_lsp.nki.reference.pages import page

if TYPE_CHECKING:
    from accelopt_lsp.agents.roles import Experience


def pages_folder() -> Path:
    """Folder of generated pages, one for each version of this package."""
    return user_cache_path("accelopt", appauthor=False) / "reference" / accelopt_lsp.__version__


def page_file(name: Name, dialect: Dialect) -> Path | None:
    """File with a name's page, written if need be; None for modules or without a place for it."""
    return None if name.kind is NameKind.MODULE else _written(name.path, dialect)


@cache
def _written(path: str, dialect: Dialect) -> Path | None:
    name = find_name(path)
    if name is None:
        return None
    file = pages_folder() / dialect.value / f"{path}.md"
    return file if _keep(file, page(name, dialect)) else None


def _keep(file: Path, text: str) -> str | None:
    """Write a file unless it holds that text; its path, or None if that is not possible."""
    try:
        if not file.exists() or file.read_text("utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            part = file.with_name(f".{file.name}.{os.getpid()}")
            part.write_text(text, "utf-8")
            part.replace(file)
    except OSError:
        return None
    return str(file)


def evidence_file(experience: Experience) -> str | None:
    """File with a strategy of the optimization memory and what speaks for it."""
    from accelopt_lsp.workbench.memory import experience_markdown

    if not experience.id.isalnum():
        return None
    return _keep(pages_folder() / "memory" / f"{experience.id}.md", experience_markdown(experience))
