"""What a prompt says about NKI: the dialect's rules, and the calls of the kernel at hand.

Signatures, engines and limits come from the instruction table, so a prompt never disagrees
with what the simulator and the analysis enforce.
"""

from __future__ import annotations

import ast

from accelopt_lsp.analysis.names import find_aliases
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.tree import module_of, walk
from accelopt_lsp.nki.apis import APIS, find_api
from accelopt_lsp.nki.dialects import Api, Dialect
from accelopt_lsp.nki.instructions import INSTRUCTIONS
from accelopt_lsp.nki.targets import Target

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
MAX_CALLS = 40


def calls_of(text: str) -> list[str]:
    """Public NKI names that a text calls, in the order of their first use."""
    document = Document.parse(text)
    aliases = find_aliases(document)
    found: dict[str, tuple[int, int]] = {}
    for node in walk(module_of(document)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute | ast.Name):
            continue
        path = aliases.canonical(ast.unparse(node.func))
        if path is not None and find_api(path) is not None:
            place = (node.lineno, node.col_offset)
            found[path] = min(place, found.get(path, place))
    return sorted(found, key=lambda path: found[path])


def call_facts(text: str, dialect: Dialect, target: Target) -> str:
    """Signature, engine and limits of the calls in a text and of those that may replace them."""
    used = calls_of(text)
    names = list(dict.fromkeys([*used, *(r for name in used for r in RELATED.get(name, ()))]))
    entries = [
        entry
        for name in names[:MAX_CALLS]
        if (api := APIS.get(name)) is not None and (entry := _entry(api, dialect, target))
    ]
    return "\n".join(entries)


def _entry(api: Api, dialect: Dialect, target: Target) -> str:
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
    lines.append(f"  on {' or '.join(e.value for e in instruction.engines)}")
    lines += [f"  limit: {limit}" for limit in instruction.limits]
    return "\n".join(lines)


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
        "tiles; indices are nl.arange/nl.mgrid or slices; masks cut ragged tiles; results that "
        "add up in PSUM use += in nl.affine_range; the first dimension of a tile is its "
        "partition dimension, par_dim marks it where block dimensions come first."
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
