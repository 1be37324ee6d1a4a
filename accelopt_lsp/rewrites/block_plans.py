"""Choosing how to block a matrix product: what stays on chip, and how large blocks are."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from accelopt_lsp.nki.work import matmul_passes
from accelopt_lsp.rewrites.base import NotApplicable, RewriteContext
from accelopt_lsp.rewrites.matmul_nest import MatmulNest, Operand
from accelopt_lsp.rewrites.model import require

_CAUTION = 1.25
"""Loads are assumed to take this much longer than at the full rate."""
_SUMMING = 0.1
"""Share of the time for partial sums that does not hide behind the products."""
_SHARE = 0.9
"""Share of the SBUF budget that blocks may take; the rest is left to the epilogue's tiles."""


@frozen(slots=True)
class Plan:
    """One choice of parameters with its estimated cost.

    Attributes:
        resident: operand that stays on chip in the outer loop.
        blocks: tiles per block of the stationary and of the moving operand.
        nanoseconds: estimated time of the nest.
        hbm_bytes: what the operands' loads read in total.
        partition_bytes: SBUF that the blocks take.
        depth: tiles of K per block; None keeps all of K on chip.
    """

    resident: str
    blocks: tuple[int, int]
    nanoseconds: float
    hbm_bytes: int
    partition_bytes: int
    depth: int | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """By what a planner names this choice."""
        found: dict[str, Any] = {"block_m": self.blocks[0], "block_n": self.blocks[1]}
        if self.depth is None:
            return {**found, "resident": self.resident}
        return {**found, "block_k": self.depth}


def _trips(operand: Operand) -> int:
    return (operand.loop.trips or 1) if operand.loop is not None else 1


def naive_bytes(nest: MatmulNest, operand: Operand) -> int:
    runs = 1
    for loop in operand.load.loops:
        runs *= loop.trips or 1
    return runs * operand.width * operand.height * operand.itemsize


def choose_plans(context: RewriteContext, nest: MatmulNest) -> list[Plan]:
    """Parameter choices that fit on chip, fastest first by a simple overlap model."""
    plans = []
    still = [o.role for o in nest.operands if o.loop is None]
    for resident in still or ("stationary", "moving"):
        for block_m in _divisors(_trips(nest.stationary)):
            for block_n in _divisors(_trips(nest.moving)):
                plan = _plan(context, nest, resident, (block_m, block_n))
                if plan is not None:
                    plans.append(plan)
    if not plans:
        plans = _deep_plans(context, nest)
    plans.sort(key=lambda p: (round(p.nanoseconds / 1e3), p.partition_bytes))
    return plans


def _deep_plans(context: RewriteContext, nest: MatmulNest) -> list[Plan]:
    """Choices where only a part of K is on chip at a time."""
    depth = nest.contraction.trips or 1
    found = []
    for block_m in _divisors(_trips(nest.stationary)):
        for block_n in _divisors(_trips(nest.moving)):
            for part in _divisors(depth):
                if part < depth:
                    plan = deep_plan(context, nest, (block_m, block_n), part)
                    found += [plan] if plan is not None else []
    return found


def deep_plan(
    context: RewriteContext, nest: MatmulNest, blocks: tuple[int, int], part: int
) -> Plan | None:
    """A choice where ``part`` tiles of K are on chip at a time and sums are kept in SBUF."""
    operands = (nest.stationary, nest.moving)
    depth = nest.contraction.trips or 1
    if part < 1 or depth % part or not all(o.itemsize for o in operands):
        return None
    if any(b < 1 or _trips(o) % b for o, b in zip(operands, blocks, strict=True)):
        return None
    rows = nest.stationary.height
    sizes = [part * b * o.width * o.itemsize for o, b in zip(operands, blocks, strict=True)]
    sums = blocks[0] * blocks[1] * nest.moving.width * 4
    total = 2 * sum(sizes) + 2 * sums
    if total > context.sbuf_budget * _SHARE:
        return None
    target = context.target
    tiles = _trips(nest.stationary) * _trips(nest.moving)
    passes = matmul_passes(max(o.itemsize for o in operands))
    compute = tiles * depth * nest.moving.width * passes / target["pe_effective_clock"]
    added = tiles * depth / part * (nest.moving.width / target["vector_clock"] + 100.0)
    output_blocks = tiles // (blocks[0] * blocks[1])
    loads = [_transfer_ns(context, o, b, part) for o, b in zip(operands, blocks, strict=True)]
    moved = output_blocks * depth / part * sum(loads)
    time = max(compute, _CAUTION * moved, added) + sum(loads) + _SUMMING * added
    traffic = output_blocks * (depth // part) * rows * sum(sizes)
    return Plan("none", blocks, time, traffic, total, part)


def varied(plans: list[Plan]) -> list[Plan]:
    """The best of all, then the best ones that differ in the resident operand or in size."""
    chosen: list[Plan] = []
    for plan in plans:
        if all(
            plan.resident != c.resident or abs(plan.partition_bytes - c.partition_bytes) > 4096
            for c in chosen
        ):
            chosen.append(plan)
    return chosen


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


def plan_for(context: RewriteContext, nest: MatmulNest, parameters: Any) -> Plan:
    """The plan with the given parameters; what is left out is chosen.

    Raises:
        NotApplicable: they do not divide the tiles, or do not fit.
    """
    names = ("resident", "block_m", "block_n", "block_k")
    wanted = {k: v for k, v in parameters.items() if k in names}
    sizes = [v for k, v in wanted.items() if k != "resident"]
    require(all(isinstance(s, int) for s in sizes), "block sizes are whole numbers of tiles")
    if {"block_k", "block_m", "block_n"} <= wanted.keys():
        blocks = (wanted["block_m"], wanted["block_n"])
        plan = deep_plan(context, nest, blocks, wanted["block_k"])
        require(plan is not None, f"blocks of {blocks[0]} x {blocks[1]} tiles do not fit")
        assert plan is not None
        return plan
    if {"resident", "block_m", "block_n"} <= wanted.keys():
        blocks = (wanted["block_m"], wanted["block_n"])
        plan = _plan(context, nest, wanted["resident"], blocks)
        require(plan is not None, f"blocks of {blocks[0]} x {blocks[1]} tiles do not fit")
        assert plan is not None
        return plan
    for plan in choose_plans(context, nest):
        given = plan.parameters
        if all(given.get(k) == v for k, v in wanted.items()):
            return plan
    raise NotApplicable("no blocks with these parameters fit on chip")


def _plan(
    context: RewriteContext, nest: MatmulNest, resident: str, blocks: tuple[int, int]
) -> Plan | None:
    sizes = dict(zip(("stationary", "moving"), blocks, strict=True))
    for operand in nest.operands:
        block = sizes[operand.role]
        if block < 1 or _trips(operand) % block:
            return None
    if resident not in sizes or not all(o.itemsize for o in nest.operands):
        return None
    kept = nest.stationary if resident == "stationary" else nest.moving
    streamed = nest.moving if kept is nest.stationary else nest.stationary
    depth = nest.contraction.trips or 1
    outer_blocks = _trips(kept) // sizes[kept.role]
    inner_blocks = _trips(streamed) // sizes[streamed.role]
    kept_bytes = depth * sizes[kept.role] * kept.width * kept.itemsize
    streamed_bytes = depth * sizes[streamed.role] * streamed.width * streamed.itemsize
    total = kept_bytes + streamed_bytes * (2 if inner_blocks * outer_blocks > 1 else 1)
    if total > context.sbuf_budget * _SHARE:
        return None
    doubled = total + kept_bytes <= context.sbuf_budget * _SHARE
    target = context.target
    tiles = _trips(kept) * _trips(streamed) * depth
    passes = matmul_passes(max(o.itemsize for o in nest.operands))
    compute = tiles * nest.moving.width * passes / target["pe_effective_clock"]
    kept_ns = _transfer_ns(context, kept, sizes[kept.role], depth)
    streamed_ns = _transfer_ns(context, streamed, sizes[streamed.role], depth)
    loads = outer_blocks * (kept_ns + inner_blocks * streamed_ns)
    stalls = 0.0 if doubled else (outer_blocks - 1) * kept_ns
    time = max(compute, _CAUTION * loads) + stalls + kept_ns + streamed_ns
    rows = nest.stationary.height
    traffic = rows * outer_blocks * (kept_bytes + inner_blocks * streamed_bytes)
    return Plan(resident, blocks, time, traffic, total)


def _transfer_ns(context: RewriteContext, operand: Operand, block: int, depth: int) -> float:
    """Time to load one block: one descriptor a row, shared by the DMA engines."""
    target = context.target
    engines = target["dma_engines"]
    row = block * operand.width * operand.itemsize
    small = row < 512
    fixed = target["dma_small_descriptor_ns" if small else "dma_descriptor_ns"]
    return depth * operand.height / engines * (fixed + row / target["dma_engine_rate"])
