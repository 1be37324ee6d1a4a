"""What a prompt says about NKI: the dialect's rules, and the calls of the kernel at hand.

Signatures, engines and limits come from the instruction table, so a prompt never disagrees
with what the simulator and the analysis enforce.
"""

from __future__ import annotations

import ast
from functools import lru_cache

from accelopt_lsp.agents.llm.sections import Detail
from accelopt_lsp.agents.normalise import around_function
from accelopt_lsp.analysis.names import find_aliases
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.tree import module_of, walk
from accelopt_lsp.nki.apis import APIS, find_api
from accelopt_lsp.nki.costs import instruction_cost
from accelopt_lsp.nki.dialects import Api, Dialect
from accelopt_lsp.nki.instructions import INSTRUCTIONS
from accelopt_lsp.nki.instructions.base import Instruction
from accelopt_lsp.nki.operands import Engine
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.nki.work import Work

RELATED = {
    "nisa.tensor_tensor": ("nisa.scalar_tensor_tensor", "nisa.tensor_scalar"),
    "nisa.tensor_scalar": ("nisa.tensor_tensor", "nisa.activation"),
    "nisa.activation": ("nisa.activation_reduce", "nisa.tensor_scalar"),
    "nisa.tensor_reduce": ("nisa.activation_reduce", "nisa.tensor_tensor_scan"),
    "nisa.nc_matmul": ("nisa.nc_transpose", "nisa.tensor_copy"),
    "nl.matmul": ("nisa.nc_matmul", "nisa.nc_transpose"),
    "nl.load": ("nisa.dma_copy", "nl.load_transpose2d"),
    "nl.exp": ("nisa.activation",),
    "nl.sum": ("nisa.tensor_reduce", "nisa.activation_reduce"),
}
"""Calls that may take the place of others, or that a kernel with these often lacks."""
_TILE = 512
"""Elements per partition of the tile whose cost is told."""
_NO_TILE_COST = frozenset({Engine.DMA, Engine.TENSOR})


@lru_cache(maxsize=64)
def calls_of(text: str, function: str | None = None) -> tuple[str, ...]:
    """Public NKI names that a text calls, in the order of their first use.

    Those of ``function`` come first.
    """
    document = Document.parse(text)
    aliases = find_aliases(document)
    parts = around_function(text, function) if function is not None else None
    first = parts[0].count("\n") + 1 if parts is not None else 0
    last = first + parts[1].count("\n") if parts is not None else 0
    found: dict[str, tuple[bool, int, int]] = {}
    for node in walk(module_of(document)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute | ast.Name):
            continue
        path = aliases.canonical(ast.unparse(node.func))
        if path is not None and find_api(path) is not None:
            place = (not first <= node.lineno <= last, node.lineno, node.col_offset)
            found[path] = min(place, found.get(path, place))
    return tuple(sorted(found, key=lambda path: found[path]))


def call_facts(
    text: str, dialect: Dialect, target: Target, detail: Detail, function: str | None = None
) -> str:
    """Signature, engine, cost and limits of a text's calls and of those that may replace them."""
    used = calls_of(text, function)
    related = (r for name in used for r in RELATED.get(name, ())) if detail.related else ()
    entries = [
        entry
        for name in list(dict.fromkeys([*used, *related]))[: detail.calls]
        if (api := APIS.get(name)) is not None and (entry := _entry(api, dialect, target, detail))
    ]
    return "\n".join(entries)


def _entry(api: Api, dialect: Dialect, target: Target, detail: Detail) -> str:
    signature = api.signature(dialect)
    if signature is None:
        return ""
    lines = [f"- {api.name}{signature.text}: {api.summary}"]
    instruction = INSTRUCTIONS.get(api.instruction) if api.instruction else None
    if instruction is None:
        return lines[0]
    if target.generation < instruction.since_generation:
        return ""
    lines.append(f"  computes {instruction.semantics}")
    engines = " or ".join(_engine(instruction, engine, target) for engine in instruction.engines)
    lines.append(f"  on {engines}")
    if detail.limits:
        lines += [f"  limit: {limit}" for limit in instruction.limits]
    return "\n".join(lines)


def _engine(instruction: Instruction, engine: Engine, target: Target) -> str:
    """An engine, and how long a tile of 128 x 512 keeps it busy where that is known."""
    if engine in _NO_TILE_COST:
        return engine.value
    tiles = sum(not (o.written or o.vector or o.optional) for o in instruction.operands)
    work = Work(128, _TILE, sbuf_inputs=tiles, element_bytes=4)
    cost = instruction_cost(instruction.id, engine, work, target)
    return engine.value + (f" ({cost.busy_ns:.0f} ns for f32[128,{_TILE}])" if cost else "")


def hardware_facts(target: Target) -> str:
    """Sizes and rates of a target that decide how a kernel is laid out."""
    partition = target.integer("sbuf_partition_bytes") - target.integer("sbuf_reserved_bytes")
    return "\n".join(
        (
            f"- {target.integer('partitions')} partitions; SBUF {partition // 1024} KiB and PSUM "
            f"{target.integer('psum_partition_bytes') // 1024} KiB a partition, PSUM in banks of "
            f"{target.integer('psum_bank_bytes') // 1024} KiB.",
            f"- HBM {target['hbm_bandwidth']:.0f} GB/s over {target.integer('dma_engines')} DMA "
            "queues; pieces below 512 bytes cost as much as 512 bytes, 2 KiB and more a "
            "partition reach full rate.",
            f"- Tensor Engine {target['pe_effective_clock']:.2g} GHz: stationary at most 128x128, "
            "moving at most 512 columns; fp32 products take four times as long as bf16.",
            "- Engines run side by side, each works through its own queue; an instruction has a "
            "fixed cost, so few large instructions beat many small ones.",
        )
    )


_RULES = {
    Dialect.LEGACY: (
        "The kernel is written in the legacy dialect (neuronxcc.nki, NKI 0.1): calls return "
        "tiles; one access is indexed either with slices and numbers or with nl.arange/nl.mgrid, "
        "not with both; masks cut ragged tiles; results that add up in PSUM use += in "
        "nl.affine_range; the first dimension of a tile is its partition dimension, par_dim marks "
        "it where block dimensions come first. Iterations of nl.affine_range may run in any "
        "order and write to different places; nl.sequential_range is for those that depend on "
        "each other. A tile made inside a loop or branch cannot be used outside of it: make it "
        "before, and assign to t[...]."
    ),
    Dialect.CURRENT: (
        "The kernel is written in the current dialect (nki, NKI 0.2 and later): nki.isa calls "
        "take dst first and return nothing; tiles are declared with nl.ndarray(shape, dtype, "
        "buffer=nl.sbuf or nl.psum); dimension 0 is the partition dimension; ragged tiles are "
        "slices cut with min(); outputs live in nl.shared_hbm and are returned."
    ),
}


def dialect_rules(dialect: Dialect) -> str:
    """How kernels of a dialect are written, in a few sentences."""
    return _RULES[dialect]
