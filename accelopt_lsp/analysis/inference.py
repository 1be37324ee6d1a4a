"""Argument shapes read from annotations, asserts, unpackings, call sites and references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from accelopt_lsp.analysis.kernels import KernelSource, call_sites
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.arguments import ArgumentSpec


def annotated(document: Document, kernel: KernelSource) -> Mapping[str, ArgumentSpec]:
    """Shapes from ``nt.tensor[128, 512]`` annotations."""
    return {}


def referenced(kernel: KernelSource, reference: Path) -> Mapping[str, ArgumentSpec]:
    """Shapes that a reference file's ``get_inputs`` makes, where its source says so."""
    return {}


def inferred(
    document: Document, kernel: KernelSource, known: Mapping[str, ArgumentSpec]
) -> Iterator[tuple[str, Mapping[str, ArgumentSpec]]]:
    """(origin, SPECs) from asserts, unpackings and call sites."""
    return iter(())


def call_site_grid(document: Document, kernel: KernelSource) -> tuple[int, ...]:
    """Launch grid of the first call site that spells it out in integers."""
    for site in call_sites(document, kernel):
        if site.grid is None:
            continue
        try:
            sizes = tuple(int(p) for p in document.node_text(site.grid).strip("()").split(",") if p)
        except ValueError:
            continue
        if sizes and all(size > 0 for size in sizes):
            return sizes
    return ()
