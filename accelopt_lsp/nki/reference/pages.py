"""Documentation of NKI's names as Markdown, from the tables alone."""

from __future__ import annotations

from collections.abc import Iterator

from accelopt_lsp.nki.costs import FORMULAS
from accelopt_lsp.nki.dialects import REPLACED, Dialect
from accelopt_lsp.nki.instructions import INSTRUCTIONS, Instruction
from accelopt_lsp.nki.reference.names import TENSOR, Name, children, constant_value
from accelopt_lsp.nki.reference.parameters import (
    about,
    parameter_text,
    parameters_of,
    signature_text,
)
from accelopt_lsp.nki.reference.paths import full_path
from accelopt_lsp.nki.reference.published import page_address
from accelopt_lsp.nki.reference.values import values_of
from accelopt_lsp.nki.targets import get_target, target_names

ENGINE_NAMES = {
    "tensor": "Tensor Engine",
    "vector": "Vector Engine",
    "scalar": "Scalar Engine",
    "gpsimd": "GpSimd Engine",
    "sync": "Sync Engine",
    "dma": "DMA",
}
MOST_VALUES = 40
"""Values of a parameter that a page lists."""


def short_page(name: Name, dialect: Dialect, target: str, version: str | None = None) -> str:
    """A few lines for a list of suggestions: signature, summary, engine, limits, availability."""
    parts = []
    signature = name.calls.get(dialect)
    if signature is not None:
        parts.append(f"```python\n{name.path}{signature_text(name.path, signature)}\n```")
    value = constant_value(name.path, get_target(target))
    parts.append(name.summary + (f" `{value}`" if value is not None else ""))
    missing = name.missing(dialect, target, version)
    if missing:
        parts.append(f"**Not available here**: {missing}.")
    if name.deprecated is not None:
        since = f" since NKI {name.deprecated_since}" if name.deprecated_since else ""
        parts.append(f"**Deprecated**{since}: use `{name.deprecated}`.")
    instruction = _instruction(name)
    if instruction is not None:
        facts = list(instruction_facts(instruction))
        parts.append("\n".join(f"- {fact}" for fact in facts))
    return "\n\n".join(parts)


def instruction_facts(instruction: Instruction) -> Iterator[str]:
    """Formula, engines and limits of an instruction."""
    if instruction.semantics:
        yield f"`{instruction.semantics}`"
    engines = ", ".join(ENGINE_NAMES.get(e, e) for e in instruction.engines)
    if engines:
        yield f"Runs on: {engines}"
    for limit in instruction.limits:
        yield f"Limit: {limit}"


def availability(name: Name) -> str:
    """Targets and packages that have a name: ``trn2, trn3 with nki from 0.4 on``."""
    able = [t for t in target_names() if get_target(t).generation >= name.generation]
    parts = []
    for dialect in sorted(name.dialects):
        signature = name.api.signatures.get(dialect) if name.api is not None else None
        words = f"`{dialect.package}`"
        if signature is not None and signature.since is not None:
            words += f" from {_short(signature.since)} on"
        if signature is not None and signature.until is not None:
            words += f" up to {_short(signature.until)}"
        parts.append(words)
    return f"{', '.join(able)} with {' and '.join(parts)}"


def _short(version: str) -> str:
    return version.removesuffix(".0")


def page(name: Name, dialect: Dialect) -> str:
    """Everything that the tables say of a name, the dialect of the file first."""
    parts = [f"# {full_path(name.path)}", name.summary]
    for one in sorted(name.calls, key=lambda d: d is not dialect):
        text = signature_text(name.path, name.calls[one])
        title = full_path(name.path)
        if one is Dialect.LEGACY and not name.path.startswith(TENSOR):
            title = f"neuronxcc.{title}"
        parts.append(f"## {one.capitalize()} dialect: `{one.package}`")
        parts.append(f"```python\n{title}{text}\n```")
        parts.append(_parameters(name, one))
    instruction = _instruction(name)
    if instruction is not None:
        parts += list(_instruction_sections(name, instruction))
    members = children(name.path)
    if members:
        parts.append("## Names\n\n" + "\n".join(f"- `{m.path}`: {m.summary}" for m in members))
    values = [
        f"- {target}: `{value}`"
        for target in target_names()
        if (value := constant_value(name.path, get_target(target))) is not None
    ]
    if values:
        parts.append("## Value\n\n" + "\n".join(values))
    parts.append(f"## Availability\n\n{availability(name)}.")
    if name.deprecated is not None:
        parts.append(f"Deprecated; use `{name.deprecated}`.")
    if name.path in REPLACED:
        parts.append(f"The current dialect has instead: {REPLACED[name.path]}.")
    sources = [
        f"- [{one.package}, AWS's documentation]({address})"
        for one in Dialect
        if one in name.dialects and (address := page_address(name.path, one)) is not None
    ]
    if sources:
        parts.append("## Sources\n\n" + "\n".join(sources))
    return "\n\n".join(part for part in parts if part) + "\n"


def _instruction(name: Name) -> Instruction | None:
    return INSTRUCTIONS.get((name.api.instruction if name.api is not None else None) or "")


def _instruction_sections(name: Name, instruction: Instruction) -> Iterator[str]:
    yield "## Instruction\n\n" + "\n".join(f"- {f}" for f in instruction_facts(instruction))
    formula = FORMULAS.get(instruction.id)
    words = " ".join((formula.__doc__ or "").split()) if formula is not None else ""
    if words:
        cost = f"{words}\n\nN is the number of elements a partition."
    elif instruction.engines and instruction.engines[0] == "dma":
        cost = "By bytes and descriptors: pieces below 512 B cost as much as one of 512 B."
    else:
        cost = "No source gives one; totals leave it open."
    yield f"## Cost\n\n{cost}"


def _parameters(name: Name, dialect: Dialect) -> str:
    rows = []
    for parameter in parameters_of(name.path, name.calls[dialect]):
        known = about(name.path, parameter.name)
        text = parameter_text(name.path, parameter.name, name.api)
        if parameter.default is not None:
            text += f" Default: `{parameter.default}`."
        values = values_of(name, parameter.name, dialect)
        if values and known.values not in ("booleans", "dtypes"):
            listed = ", ".join(f"`{v}`" for v in values[:MOST_VALUES])
            text += f" One of {listed}."
        rows.append(f"- `{parameter.name}`: {text}")
    return "\n".join(rows)
