"""Transpose a matmul operand once instead of in every product that uses it.

Before::

    for n in range(N_TILES):
        for k in range(K_TILES):
            acc += matmul(x[:, k], w[k, n])             # transposes x[:, k] for every n

After::

    for k in range(K_TILES):
        xT[k] = copy(transpose(x[:, k]))
    for n in range(N_TILES):
        for k in range(K_TILES):
            acc += matmul(xT[k], w[k, n], transpose_x=True)

``nl.matmul`` without ``transpose_x`` issues a Tensor Engine transpose and a copy each time.
"""

from __future__ import annotations

import ast
from math import prod

from attrs import frozen

from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.rewrites.affine import Dim, region_symbols
from accelopt_lsp.rewrites.base import Description, NotApplicable, RewriteContext, Site
from accelopt_lsp.rewrites.model import KernelModel, Step, is_none, require
from accelopt_lsp.rewrites.spelling import Speller, wrap
from accelopt_lsp.rewrites.values import Loop, View

NAME = "hoist-transpose"


@frozen(slots=True, eq=False)
class Transposed:
    """One product, the loop above which its transpose moves, and loops that still count."""

    product: Step
    operand: ast.expr
    view: View
    over: Loop
    kept: tuple[Loop, ...]

    @property
    def times(self) -> int:
        position = self.product.loops.index(self.over)
        gone = [x for x in self.product.loops[position:] if x not in self.kept]
        return prod(x.trips or 1 for x in gone)


class HoistTranspose:
    """Moves the transposes that plain products imply out of loops."""

    name = NAME
    title = "Transpose once for all products"
    tags = ("tensor", "scalar", "nc_transpose", "matmul", "reuse")
    description = Description(
        title=title,
        strategy=(
            "The Tensor Engine wants the contraction on partitions for both operands, so a "
            "product of a row-major left operand first transposes it and copies it out of PSUM, "
            "again for every output tile in the same rows. Transpose each tile of the left "
            "operand once, keep it in SBUF, and use it in all products."
        ),
        before=(
            "for n in range(N):\n    for k in range(K):\n        acc += matmul(x[:, k], w[k, n])"
        ),
        after=(
            "xT = [copy(transpose(x[:, k])) for k in range(K)]\nfor n in range(N):\n"
            "    for k in range(K):\n        acc += matmul(xT[k], w[k, n], transpose_x=True)"
        ),
        bottlenecks=("tensor", "scalar", "latency"),
        instructions=("nc_transpose", "nc_matmul", "tensor_copy"),
        pattern="nl.matmul without transpose_x in a loop that its left operand does not use",
    )

    def find(self, context: RewriteContext) -> tuple[Site, ...]:
        if not context.legacy:
            return ()
        sites: list[Site] = []
        for step in context.model.steps:
            try:
                found = _match(context.model, step)
                _text(context, found)
            except NotApplicable:
                continue
            line, over = step.node.lineno, found.over.variable
            sites.append(
                Site(
                    NAME,
                    f"{NAME}:{line}:{over}",
                    f"Transpose the left operand of line {line} in front of the loop over {over}",
                    {"line": line, "over": over},
                    f"{found.times} times fewer transposes and copies",
                    line,
                    len(sites),
                )
            )
        return tuple(sites)

    def apply(self, context: RewriteContext, site: Site) -> str:
        require(context.legacy, "products of the current dialect take transposed operands only")
        line = site.parameters.get("line")
        reasons = []
        for step in context.model.steps:
            if step.api == "nl.matmul" and line in (None, step.node.lineno):
                try:
                    return _text(context, _match(context.model, step))
                except NotApplicable as error:
                    reasons.append(str(error))
        raise NotApplicable(reasons[0] if reasons else "no product that transposes its operand")


def _match(model: KernelModel, step: Step) -> Transposed:
    """What can be moved for one product.

    Raises:
        NotApplicable: nothing.
    """
    require(step.api == "nl.matmul" and not step.opaque and not step.guarded, "no product")
    flag = step.argument("transpose_x")
    plain = flag is None or (isinstance(flag, ast.Constant) and not flag.value)
    require(plain, "the operand is transposed already")
    require(is_none(step.argument("mask")), "the product is masked")
    operand = step.argument("x")
    view = model.view(operand)
    if operand is None or view is None or view.region is None:
        raise NotApplicable("the left operand is not understood")
    tensor = view.tensor
    creator = model.creator(tensor)
    require(creator is not None and tensor.buffer is Buffer.SBUF, "the left operand is not a tile")
    assert creator is not None
    used = region_symbols(view.region)
    for position, loop in enumerate(step.loops):
        if loop.symbol in used or loop in creator.loops:
            continue
        if any(s.writes_of(tensor) for s in model.steps_in(loop.node)):
            continue
        kept = tuple(x for x in step.loops[position + 1 :] if x.symbol in used)
        if all(x.plain and x.trips is not None for x in kept) and (loop.trips or 0) > 1:
            return Transposed(step, operand, view, loop, kept)
    raise NotApplicable("every loop around the product changes the left operand")


def _text(context: RewriteContext, found: Transposed) -> str:
    source = context.source
    place = found.over.node
    position = found.product.loops.index(found.over)
    speller = Speller(context, place.lineno, found.product.loops[:position])
    nl, newline = speller.prefix("nl"), source.newline
    unit, indent = source.indent_unit(context.function), source.indent_of(place)
    rows, columns = _sizes(found.view)
    require(max(rows.extent or 0, columns.extent or 0) <= 128, "the left operand is too large")
    dtype = found.view.tensor.dtype
    require(dtype is not None, "the left operand's type is unknown")
    assert dtype is not None
    depth = prod(x.trips or 1 for x in found.kept)
    size = depth * (rows.extent or 0) * dtype.nbytes
    require(2 * size <= context.sbuf_budget, "the transposed tiles do not fit on chip")
    variables = {x.variable for x in found.kept}
    require(speller.all_in_scope(found.operand, variables), "the operand is indexed in the loop")
    for loop in found.kept:
        require(speller.all_in_scope(loop.node.iter), "an inner loop's length is not known")
    name = speller.fresh(f"{found.view.tensor.name}T")
    creator = context.model.creator(found.view.tensor)
    near = [creator.node] if creator is not None else []
    shape = [
        speller.number(columns.extent or 0, [found.operand]),
        speller.number(rows.extent or 0, [*near, found.operand]),
    ]
    counts = [source.one_line(x.node.iter.args[0]) for x in found.kept]  # type: ignore[attr-defined]
    sizes = [*counts, f"{nl}.par_dim({shape[0]})", shape[1]] if counts else shape
    base = found.operand.value if isinstance(found.operand, ast.Subscript) else found.operand
    kind = f"{base.id}.dtype" if isinstance(base, ast.Name) else f"{nl}.{dtype.name}"
    declared = f"{name} = {nl}.ndarray(({', '.join(sizes)}), dtype={kind}, buffer={nl}.sbuf)"
    lines = [wrap(indent, declared, newline)]
    inner = indent
    for loop in found.kept:
        lines.append(f"{inner}for {loop.variable} in {source.one_line(loop.node.iter)}:{newline}")
        inner += unit
    index = ", ".join([*(x.variable for x in found.kept), ":", ":"])
    moved = f"{name}[{index}] = {nl}.copy({nl}.transpose({source.one_line(found.operand)}))"
    lines.append(wrap(inner, moved, newline))
    call = found.product.call
    assert call is not None
    edits = [source.replace(found.operand, f"{name}[{index}]")]
    flag = found.product.argument("transpose_x")
    if flag is not None:
        edits.append(source.replace(flag, "True"))
    else:
        last = max([*call.args, *(k.value for k in call.keywords)], key=source.span)
        end = source.span(last)[1]
        edits.append(source.insert(end, ", transpose_x=True"))
    above = source.comments_above(place)
    gap = newline if found.kept else ""
    return source.apply([*edits, source.insert_before_line(above, "".join(lines) + gap)])


def _sizes(view: View) -> tuple[Dim, Dim]:
    """The operand's partition and free dimension."""
    kept = [d for d in view.region or () if not d.point]
    require(len(kept) == 2 and all(d.extent for d in kept), "the left operand is not a matrix")
    return kept[0], kept[1]
