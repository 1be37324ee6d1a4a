"""What one call shows by itself: keywords, enumerations, masks, unwritten operands.

Each function notes rules by code; how severe that is, is the rule's business.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from accelopt_lsp.analysis.machine import Machine
from accelopt_lsp.analysis.rejections import NOT_AFFINE, argument_node, fix_at
from accelopt_lsp.analysis.values import Blocks, Unknown, Value, View
from accelopt_lsp.nki.dialects import TOLERATED, Api, Dialect
from accelopt_lsp.nki.dtypes import Kind
from accelopt_lsp.nki.lowering import Lowered
from accelopt_lsp.nki.operands import Buffer

Nodes = Mapping[str, ast.AST]

_TWO_CORES = frozenset({"nisa.sendrecv", "nisa.core_barrier"})


def notice_arguments(
    m: Machine, node: ast.AST, api: Api, bound: Mapping[str, Value], nodes: Nodes
) -> None:
    """Rules on the arguments of one call, before it is lowered."""
    if m.dialect is Dialect.LEGACY:
        _legacy(m, node, api.name, bound, nodes)
    else:
        _current(m, node, api, bound, nodes)
    if api.name == "nl.invert":
        given = bound.get("x", bound.get("data"))
        if isinstance(given, View) and given.dtype.kind is Kind.BOOL:
            m.find(
                "R056",
                "the inverse of a bool tile is wrong on the hardware; take int8 for it",
                argument_node(node, "x", 0),
            )


def _legacy(m: Machine, node: ast.AST, name: str, bound: Mapping[str, Value], nodes: Nodes) -> None:
    for key, value in bound.items():
        if isinstance(value, Blocks):
            left = value.storage.shape[len(value.prefix) : value.storage.blocks]
            m.find(
                "R014",
                f"{value.storage.name or 'this tensor'} has block dimensions {list(left)} before "
                f"its partitions; {name} takes one tile: index them first",
                nodes.get(key, node),
            )
    mask = bound.get("mask")
    if isinstance(mask, Unknown) and mask.reason == NOT_AFFINE:
        m.find(
            "R033",
            "a mask must be an affine comparison of nl.arange and loop variables; this one has %, "
            "// or a product of two indices",
            nodes.get("mask", node),
        )


def _current(m: Machine, node: ast.AST, api: Api, bound: Mapping[str, Value], nodes: Nodes) -> None:
    name = api.name
    signature = api.signature(m.dialect)
    if signature is not None and name.startswith("nisa."):
        for key in bound:
            if key not in signature.parameters and key in TOLERATED:
                instead = "the data type of dst decides" if key == "dtype" else "leave it out"
                where = argument_node(node, key)
                # Versions that ignored it computed the same.
                safe = isinstance(where, ast.Constant) or key != "mask"
                fix = fix_at(where, f"Remove {key}=", "remove-argument", safe=safe)
                text = f"{name} has no parameter {key!r}; {instead}"
                m.find("R061", text, where, fix=fix if where is not node else None)
    if name in _TWO_CORES:
        _two_cores(m, node, name, bound, nodes)


def _two_cores(
    m: Machine, node: ast.AST, name: str, bound: Mapping[str, Value], nodes: Nodes
) -> None:
    """R088, where the launch grid is known or a rank is a number."""
    if m.grid and m.grid[0] != 2:
        m.find("R088", f"{name} needs a launch grid of 2 cores, this one has {m.grid[0]}", node)
    for key in ("send_to_rank", "recv_from_rank"):
        rank = bound.get(key)
        if isinstance(rank, int) and rank not in (0, 1):
            text = f"{key}={rank}: the two cores of a logical core have the ranks 0 and 1"
            m.find("R088", text, nodes.get(key, node))


def notice_mask_of_statistics(
    m: Machine, name: str, axes: Mapping[int, Any], node: ast.AST
) -> None:
    """R044: bn_stats under a mask that cuts what it reduces."""
    if name != "nisa.bn_stats":
        return
    for axis, (size, low, high) in axes.items():
        if axis and high - low < size:
            m.find(
                "R044",
                f"the mask leaves {high - low} of {size} columns, which nisa.bn_stats reduces; "
                "take a slice of the tile",
                node,
            )


def notice_operands(
    m: Machine, node: ast.AST, lowered: Lowered, views: Mapping[str, View], nodes: Nodes
) -> None:
    """R099 and R071: what an instruction reads that nothing wrote, while all is known."""
    for issue in lowered.issues:
        for slot in issue.reads:
            if slot in issue.writes:
                # What an instruction leaves as it is counts as read too.
                continue
            view = views.get(slot.partition("@")[0])
            if view is not None and _unwritten(m, view):
                m.find(
                    "R099",
                    f"{view.storage.name or 'this tensor'} {list(view.storage.tile_shape)} is read "
                    "but nothing has written it; write it first (a load, nisa.memset, nl.zeros)",
                    nodes.get(slot.partition("@")[0], node),
                )
    for issue in lowered.issues:
        if issue.op == "nc_matmul" and dict(issue.attrs).get("accumulate") is True:
            _sum(m, node, views.get("dst"), nodes)
        for slot in issue.writes:
            view = views.get(slot.partition("@")[0])
            if view is not None:
                m.written.add(view.storage.id)
                if issue.op in ("nc_matmul", "nc_matmul_mx"):
                    m.multiplied.add(view.storage.id)


def _unwritten(m: Machine, view: View) -> bool:
    """Whether it is sure that nothing wrote to a tensor of the kernel's own."""
    storage = view.storage
    return (
        storage.kind == "tensor"
        and storage.id not in m.written
        and not storage.placed
        and not m.unknowns
    )


def _sum(m: Machine, node: ast.AST, view: View | None, nodes: Nodes) -> None:
    """R071: a product that adds to what no product wrote."""
    if view is None or view.storage.placed or view.buffer is not Buffer.PSUM:
        return
    where = nodes.get("accumulate", node)
    name = view.storage.name or "this tile"
    if _unwritten(m, view):
        m.find(
            "R071",
            f"the product adds to {name} {list(view.shape)}, which nothing wrote; take "
            "accumulate=(i > 0), or leave it out",
            where,
        )
