"""The catalogue of source rewrites, behind offline agents, quick fixes and ``check --fix``.

Each rewrite is a small named program transformation: it finds the places where it applies and
returns the new text, in which untouched lines are byte-identical and outputs are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from accelopt_lsp.nki.arguments import KernelArguments
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.rewrites.base import (
    Description,
    NotApplicable,
    Rewrite,
    RewriteContext,
    Site,
)

__all__ = [
    "Description",
    "NotApplicable",
    "Rewrite",
    "RewriteContext",
    "Site",
    "apply_named",
    "catalogue",
    "describe",
    "find_rewrite",
    "find_sites",
    "quick_fixes",
]


@cache
def catalogue() -> tuple[Rewrite, ...]:
    """All rewrites, those with the largest effects first."""
    from accelopt_lsp.rewrites.block_matmul import BlockMatmul
    from accelopt_lsp.rewrites.fuse_instructions import FuseInstructions
    from accelopt_lsp.rewrites.hoist_invariant import HoistInvariant
    from accelopt_lsp.rewrites.hoist_load import HoistLoad
    from accelopt_lsp.rewrites.hoist_transpose import HoistTranspose
    from accelopt_lsp.rewrites.swap_engine import SwapEngine
    from accelopt_lsp.rewrites.widen_tile import WidenTile

    return (
        BlockMatmul(),
        HoistLoad(),
        HoistTranspose(),
        HoistInvariant(),
        WidenTile(),
        FuseInstructions(),
        SwapEngine(),
    )


@cache
def quick_fixes() -> tuple[Rewrite, ...]:
    """Rewrites that quick fixes name and no agent tries: they make a kernel no faster."""
    from accelopt_lsp.rewrites.migrate import MigrateKernel
    from accelopt_lsp.rewrites.repairs import all_repairs

    return (MigrateKernel(), *all_repairs())


def find_rewrite(name: str) -> Rewrite:
    """The rewrite of that name.

    Raises:
        NotApplicable: there is none; the message lists those that exist.
    """
    for rewrite in (*catalogue(), *quick_fixes()):
        if rewrite.name == name:
            return rewrite
    known = ", ".join(r.name for r in (*catalogue(), *quick_fixes()))
    raise NotApplicable(f"unknown rewrite {name!r}; known: {known}")


def find_sites(
    text: str,
    function: str | None,
    arguments: KernelArguments | None = None,
    target: Target | str | None = None,
) -> tuple[Site, ...]:
    """Sites of all rewrites in one kernel; empty where nothing applies. Never raises."""
    try:
        context = RewriteContext.from_text(text, function, arguments, target)
    except NotApplicable:
        return ()
    sites: list[Site] = []
    for rewrite in catalogue():
        try:
            sites += rewrite.find(context)
        except NotApplicable:
            continue
    return tuple(sites)


def apply_named(
    text: str,
    function: str | None,
    rewrite_name: str,
    parameters: Mapping[str, Any] | None = None,
    arguments: KernelArguments | None = None,
    target: Target | str | None = None,
) -> str:
    """Apply a rewrite by name; of its sites the first that has all given parameters.

    Raises:
        NotApplicable: no such rewrite, kernel or site, or the change would be doubtful.
    """
    rewrite = find_rewrite(rewrite_name)
    context = RewriteContext.from_text(text, function, arguments, target)
    wanted = dict(parameters or {})
    sites = rewrite.find(context)
    for site in sites:
        if all(site.parameters.get(k) == v for k, v in wanted.items()):
            return rewrite.apply(context, site)
    line = wanted.get("line")
    described = Site(
        rewrite.name,
        f"{rewrite.name}:named",
        rewrite.title,
        wanted,
        "",
        line if isinstance(line, int) else context.function.lineno,
    )
    return rewrite.apply(context, described)


def describe(name: str) -> Description:
    """A rewrite in words: title, strategy, pseudocode before and after, tags.

    Raises:
        NotApplicable: no such rewrite.
    """
    return find_rewrite(name).description
