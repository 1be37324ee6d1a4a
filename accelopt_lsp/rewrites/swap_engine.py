"""Move an instruction to another engine that can run it.

Before::

    y = tensor_copy(psum)                       # on the busy Scalar Engine

After::

    y = tensor_copy(psum, engine=vector_engine)
"""

from __future__ import annotations

import ast

from accelopt_lsp.nki.instructions import INSTRUCTIONS
from accelopt_lsp.nki.operands import Buffer, Engine
from accelopt_lsp.rewrites.base import Description, NotApplicable, RewriteContext, Site
from accelopt_lsp.rewrites.elementwise import free_size
from accelopt_lsp.rewrites.model import Step, is_none, require
from accelopt_lsp.rewrites.source import Edit
from accelopt_lsp.rewrites.spelling import Speller, wrap
from accelopt_lsp.rewrites.values import ApiRef

NAME = "swap-engine"
_MOVABLE = {
    "nisa.tensor_copy": "tensor_copy",
    "nisa.tensor_scalar": "tensor_scalar",
    "nisa.tensor_tensor": "tensor_tensor",
    "nl.copy": "tensor_copy",
}
_SCALAR_FORMS = (("multiply",), ("add",), ("multiply", "add"))
_SITES = 12


class SwapEngine:
    """Names another engine for element-wise instructions."""

    name = NAME
    title = "Move work to another engine"
    tags = ("vector", "scalar", "gpsimd", "balance")
    description = Description(
        title=title,
        strategy=(
            "Vector, Scalar and GpSimd run side by side. When one of them bounds the kernel "
            "while another one idles, move copies and scalar arithmetic over with engine=. "
            "GpSimd reaches no PSUM and, on NeuronCore-v2, shares its SBUF port with Vector; "
            "Scalar takes multiplication and addition by scalars only."
        ),
        before="y = tensor_copy(psum_tile)\nz = tensor_scalar(y, multiply, s)",
        after=(
            "y = tensor_copy(psum_tile, engine=vector_engine)\n"
            "z = tensor_scalar(y, multiply, s, engine=gpsimd_engine)"
        ),
        bottlenecks=("vector", "scalar", "gpsimd"),
        instructions=("tensor_copy", "tensor_scalar", "tensor_tensor"),
        pattern="element-wise instructions on one engine while another one idles",
    )

    def find(self, context: RewriteContext) -> tuple[Site, ...]:
        found: list[tuple[int, Step, Engine]] = []
        for step in context.model.steps:
            for engine in _choices(context, step):
                try:
                    _text(context, step, engine)
                except NotApplicable:
                    continue
                found.append((_elements(context, step), step, engine))
        found.sort(key=lambda f: -f[0])
        return tuple(
            _site(size, step, engine, rank)
            for rank, (size, step, engine) in enumerate(found[:_SITES])
        )

    def apply(self, context: RewriteContext, site: Site) -> str:
        line, wanted = site.parameters.get("line"), site.parameters.get("engine")
        for step in context.model.steps:
            if line not in (None, step.node.lineno):
                continue
            for engine in _choices(context, step):
                if wanted in (None, engine.value):
                    return _text(context, step, engine)
        raise NotApplicable("no instruction there can run on that engine")


def _site(size: int, step: Step, engine: Engine, rank: int) -> Site:
    line = step.node.lineno
    return Site(
        NAME,
        f"{NAME}:{line}:{engine}",
        f"Run line {line} on the {engine} engine",
        {"line": line, "engine": engine.value},
        f"moves {size} elements per partition",
        line,
        rank,
    )


def _elements(context: RewriteContext, step: Step) -> int:
    size = free_size(context.model.view(_data(step))) or 1
    for loop in step.loops:
        size *= loop.trips or 1
    return size


def _data(step: Step) -> ast.expr | None:
    for name in ("data", "src", "data1", "x"):
        if step.argument(name) is not None:
            return step.argument(name)
    return None


def _operators(context: RewriteContext, step: Step) -> tuple[str, ...] | None:
    names = []
    for key in ("op0", "op1"):
        node = step.argument(key)
        if is_none(node):
            continue
        value = context.model.value(node)
        if not isinstance(value, ApiRef):
            return None
        names.append(value.name.rpartition(".")[2])
    return tuple(names)


def _choices(context: RewriteContext, step: Step) -> list[Engine]:
    """Engines that can run the statement besides the one named in it."""
    instruction = _MOVABLE.get(step.api or "")
    if instruction is None or step.opaque or step.guarded or not step.writes:
        return []
    views = [a.view for a in (*step.reads, *step.writes)]
    if any(v.tensor.buffer is None for v in views):
        return []
    psum = any(v.tensor.buffer is Buffer.PSUM for v in views)
    now = _named(context, step)
    found = []
    for engine in INSTRUCTIONS[instruction].engines:
        if engine is now or (engine is Engine.GPSIMD and psum):
            continue
        if engine is Engine.SCALAR and instruction == "tensor_scalar":
            reverses = (step.argument("reverse0"), step.argument("reverse1"))
            plain = all(
                r is None or (isinstance(r, ast.Constant) and not r.value) for r in reverses
            )
            if _operators(context, step) not in _SCALAR_FORMS or not plain:
                continue
        found.append(engine)
    return found


def _named(context: RewriteContext, step: Step) -> Engine | None:
    """The engine that the statement names, or its default where that is sure."""
    value = context.model.value(step.argument("engine"))
    if isinstance(value, ApiRef):
        short = value.name.rpartition(".")[2].removesuffix("_engine")
        if short in Engine.__members__.values():
            return Engine(short)
    if step.api == "nisa.tensor_tensor":
        return Engine.VECTOR
    psum = any(a.view.tensor.buffer is Buffer.PSUM for a in step.reads)
    if step.api in ("nisa.tensor_copy", "nl.copy"):
        return Engine.SCALAR if context.legacy and psum else Engine.VECTOR
    if not context.legacy:
        return Engine.VECTOR
    return Engine.SCALAR if _operators(context, step) in _SCALAR_FORMS else Engine.VECTOR


def _text(context: RewriteContext, step: Step, engine: Engine) -> str:
    """The statement with another engine named.

    Raises:
        NotApplicable: the call cannot name one.
    """
    source = context.source
    speller = Speller(context, step.node.lineno, step.loops)
    nisa = speller.prefix("nisa")
    name = f"{nisa}.{engine.value}_engine"
    call = step.call
    assert call is not None
    given = step.argument("engine")
    if given is not None:
        return _rewrapped(context, step, [source.replace(given, name)])
    edits = []
    if step.api == "nl.copy":
        require(context.legacy, "nl.copy of the current dialect returns a tile")
        edits.append(source.replace(call.func, f"{nisa}.tensor_copy"))
    last = max([*call.args, *(k.value for k in call.keywords)], key=source.span)
    edits.append(source.insert(source.span(last)[1], f", engine={name}"))
    return _rewrapped(context, step, edits)


def _rewrapped(context: RewriteContext, step: Step, edits: list[Edit]) -> str:
    """The new text; a line that has become too long is broken."""
    source, node = context.source, step.node
    source.check_whole_lines(node)
    line = source.extract(node.lineno, node.end_lineno or 0, edits)
    too_long = len(line.rstrip()) > 100 and len(source.lines[node.lineno - 1].rstrip()) <= 100
    if node.lineno == node.end_lineno and too_long and "#" not in line:
        line = wrap(source.indent_of(node), line.strip(), source.newline)
    start, end = source.line_range(node.lineno, node.end_lineno or 0)
    return source.apply([Edit(start, end, line)])
