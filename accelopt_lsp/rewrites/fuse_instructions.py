"""Fuse vector and scalar instructions that pass a tile from one to the next.

Before::

    squares = activation(square, x)
    total = tensor_reduce(add, squares)         # a second pass over the tile

After::

    squares = activation_reduce(square, x, reduce_op=add, reduce_res=total)

Before::

    scaled = tensor_scalar(x, multiply, s)
    out = tensor_tensor(scaled, y, add)

After::

    out = scalar_tensor_tensor(x, multiply, s, add, y)
"""

from __future__ import annotations

import ast

from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.rewrites.base import Description, NotApplicable, RewriteContext, Site
from accelopt_lsp.rewrites.elementwise import Operation, free_size, operations
from accelopt_lsp.rewrites.fuse_patterns import Finder, Fusion
from accelopt_lsp.rewrites.model import Step, is_none, require
from accelopt_lsp.rewrites.source import Edit
from accelopt_lsp.rewrites.spelling import Speller, wrap
from accelopt_lsp.rewrites.values import Tensor

NAME = "fuse-instructions"


class FuseInstructions:
    """Puts chains of element-wise statements into one instruction."""

    name = NAME
    title = "Fuse instructions"
    tags = ("vector", "scalar", "activation", "tensor_scalar", "fusion")
    description = Description(
        title=title,
        strategy=(
            "Each element-wise instruction streams its whole tile through an engine. Hardware "
            "instructions can do more in the same pass: activation applies a scale and a bias "
            "for free and can sum its result; tensor_scalar takes two operators; "
            "scalar_tensor_tensor combines a tile with a scalar and another tile; silu and "
            "rsqrt are single functions. Fold neighbours together where nothing else needs the "
            "intermediate tile."
        ),
        before=("t = multiply(x, s)\ny = exp(t)\nr = sum(y)\nz = multiply(v, w)\nout = add(z, u)"),
        after=(
            "y = activation_reduce(exp, x, scale=s, reduce_op=add, reduce_res=r)\n"
            "out = scalar_tensor_tensor(v, multiply, w, add, u)"
        ),
        bottlenecks=("vector", "scalar", "latency"),
        instructions=(
            "activation",
            "tensor_scalar",
            "tensor_tensor",
            "scalar_tensor_tensor",
            "tensor_reduce",
            "reciprocal",
        ),
        pattern="two or more element-wise statements where one feeds the next",
    )

    def find(self, context: RewriteContext) -> tuple[Site, ...]:
        found: list[Fusion] = []
        for fusion in _fusions(context):
            try:
                _Writer(context, fusion).text()
            except NotApplicable:
                continue
            found.append(fusion)
        found.sort(key=lambda f: -_saved_elements(context, f))
        return tuple(_site(context, f, rank) for rank, f in enumerate(found))

    def apply(self, context: RewriteContext, site: Site) -> str:
        line, pattern = site.parameters.get("line"), site.parameters.get("pattern")
        reasons = []
        for fusion in _fusions(context):
            place = (fusion.sums or fusion.final).step.node.lineno
            if line not in (None, place) or pattern not in (None, fusion.pattern):
                continue
            try:
                return _Writer(context, fusion).text()
            except NotApplicable as error:
                reasons.append(str(error))
        raise NotApplicable(reasons[0] if reasons else "no instructions that can be fused")


def _fusions(context: RewriteContext) -> list[Fusion]:
    known = operations(context.model)
    finder = Finder(context.model, known)
    return [f for o in known for f in finder.fusions(o)]


def _runs(step: Step) -> int:
    total = 1
    for loop in step.loops:
        total *= loop.trips or 1
    return total


def _saved_elements(context: RewriteContext, fusion: Fusion) -> int:
    """Elements per partition that no longer stream through an engine."""
    gone = [*fusion.removed, *([fusion.sums] if fusion.sums else [])]
    sizes = [free_size(context.model.view(o.data)) or 1 for o in gone]
    return sum(sizes) * _runs(fusion.final.step)


def _site(context: RewriteContext, fusion: Fusion, rank: int) -> Site:
    last = fusion.sums or fusion.final
    line = last.step.node.lineno
    gone = len(fusion.removed) + (1 if fusion.sums else 0)
    runs = _runs(fusion.final.step)
    plural = "s" if gone > 1 else ""
    return Site(
        NAME,
        f"{NAME}:{line}:{fusion.pattern}",
        f"Do {fusion.title} in one {fusion.instruction} (line {line})",
        {"line": line, "pattern": fusion.pattern},
        f"{gone} instruction{plural} less in each of {runs} runs, "
        f"{_saved_elements(context, fusion)} elements per partition in all",
        line,
        rank,
    )


class _Writer:
    """Writes the text with one fusion done."""

    def __init__(self, context: RewriteContext, fusion: Fusion) -> None:
        self.context = context
        self.fusion = fusion
        self.model = context.model
        self.source = context.source
        anchor = fusion.final.step
        self.speller = Speller(context, anchor.node.lineno, anchor.loops)
        self.edits: list[Edit] = []

    def text(self) -> str:
        """The whole new file.

        Raises:
            NotApplicable: types are unknown where they matter, or statements share a line.
        """
        fusion = self.fusion
        final = fusion.final
        statements = [o.step.node for o in fusion.removed] + [final.step.node]
        if fusion.sums is not None:
            statements.append(fusion.sums.step.node)
        for statement in statements:
            self.source.check_whole_lines(statement)
        head = self._sum_head() if fusion.sums is not None else ""
        arguments = list(fusion.arguments)
        if fusion.sums is not None:
            arguments.append(("reduce_res", self._sum_result()))
        if fusion.negated is not None:
            name, made = self._negation()
            head += made
            arguments.insert(2, (fusion.negated[1], name))
        keep = fusion.pattern not in ("silu", "sigmoid", "rsqrt")
        comments = "".join(self._cut(o.step.node, keep_comment=keep) for o in fusion.removed)
        for operation in fusion.removed:
            self._drop_allocation(operation.tensor)
        if fusion.sums is not None:
            comments = self._cut(fusion.sums.step.node, keep_comment=True)
        self._replace_final(arguments, head, comments)
        return self.source.apply(self.edits)

    def _nl(self, text: str) -> str:
        return text.replace("NL.", f"{self.speller.prefix('nl')}.") if "NL." in text else text

    def _indent(self) -> str:
        return self.source.indent_of(self.fusion.final.step.node)

    def _replace_final(self, arguments: list[tuple[str, str]], head: str, comments: str) -> None:
        final = self.fusion.final
        step, node = final.step, final.step.node
        nisa = self.speller.prefix("nisa")
        listed = [f"{name}={self._nl(text)}" for name, text in arguments]
        indent, newline = self._indent(), self.source.newline
        mask = step.argument("mask")
        if not is_none(mask) and mask is not None:
            listed.append(f"mask={self.source.one_line(mask)}")
        if self.context.legacy:
            dtype = self._dtype_argument()
            if dtype is not None:
                listed.append(f"dtype={dtype}")
            assert isinstance(node, ast.Assign)
            target = self.source.one_line(node.targets[0])
            text = f"{target} = {nisa}.{self.fusion.instruction}({', '.join(listed)})"
        else:
            destination = step.argument("dst")
            if destination is None:
                head += self._allocate(final.tensor, final.tensor.dtype)
                name = final.tensor.name
            else:
                name = self.source.one_line(destination)
            text = f"{nisa}.{self.fusion.instruction}({', '.join([f'dst={name}', *listed])})"
        lines = wrap(indent, text, newline)
        trailing = self._trailing_comment(node)
        if trailing and lines.count(newline) == 1:
            lines = lines.rstrip("\r\n") + trailing + newline
        elif trailing:
            head = f"{indent}{trailing.strip()}{newline}{head}"
        first, last = node.lineno, node.end_lineno or 0
        start, end = self.source.line_range(first, last)
        above = self.source.comments_above(node, self._floor(step))
        if comments:
            self.edits.append(self.source.insert_before_line(above, comments))
        self.edits.append(Edit(start, end, head + lines))

    def _trailing_comment(self, node: ast.stmt) -> str:
        line = self.source.lines[(node.end_lineno or 1) - 1].rstrip("\r\n")
        return line.encode()[node.end_col_offset :].decode().rstrip()

    def _floor(self, step: Step) -> int:
        position = step.block.index(step.node)
        return (step.block[position - 1].end_lineno or 0) if position else 0

    def _dtype_argument(self) -> str | None:
        """``dtype=`` of the fused call in the legacy dialect, None where the default is right."""
        final = self.fusion.final
        given = final.step.argument("dtype")
        if given is not None and not is_none(given):
            return self.source.one_line(given)
        if final.in_place:
            return None
        view = self.model.view(self.fusion.data)
        default = view.tensor.dtype if view is not None else None
        require(final.dtype is not None and default is not None, "the result's type is unknown")
        assert final.dtype is not None
        if final.dtype == default:
            return None
        return f"{self.speller.prefix('nl')}.{final.dtype.name}"

    def _allocate(self, tensor: Tensor, dtype: DType | None, text: str | None = None) -> str:
        """A declaration of a tile that a call used to return."""
        require(tensor.shape is not None and None not in tensor.shape, "a tile's size is unknown")
        require(dtype is not None or text is not None, "a tile's type is unknown")
        assert tensor.shape is not None
        nl = self.speller.prefix("nl")
        near = [self.fusion.data]
        for access in self.fusion.final.step.reads:
            made = self.model.creator(access.view.tensor)
            if made is not None:
                near.append(made.node)  # type: ignore[arg-type]
        sizes = [self.speller.number(s or 0, near) for s in tensor.shape]
        kind = text or f"{nl}.{dtype.name}"  # type: ignore[union-attr]
        return wrap(
            self._indent(),
            f"{tensor.name} = {nl}.ndarray(({', '.join(sizes)}), dtype={kind}, buffer={nl}.sbuf)",
            self.source.newline,
        )

    def _sum_head(self) -> str:
        """Declares the sum's tile in front of the fused instruction, if it is not there yet."""
        sums = self.fusion.sums
        assert sums is not None
        tensor = sums.tensor
        creator = self.model.creator(tensor)
        if not sums.in_place:
            given = sums.step.argument("dtype")
            text = None if given is None or is_none(given) else self.source.one_line(given)
            require(isinstance(sums.step.node, ast.Assign), "the sum has no name")
            return self._allocate(tensor, tensor.dtype, text)
        if creator is not None and creator.index > self.fusion.final.step.index:
            require(creator.block is sums.step.block, "the sum's tile is made elsewhere")
            names = {n.id for n in ast.walk(creator.node) if isinstance(n, ast.Name)}
            late = [
                n
                for n in names - {tensor.name}
                for b in self.model.bindings.get(n, ())
                if b.lineno >= self.fusion.final.step.node.lineno  # type: ignore[attr-defined]
            ]
            require(not late, "the sum's tile needs names that come later")
            text = self.source.extract(creator.node.lineno, creator.node.end_lineno or 0)
            self._cut(creator.node, keep_comment=False)
            return text
        return ""

    def _sum_result(self) -> str:
        sums = self.fusion.sums
        assert sums is not None
        if not sums.in_place:
            return sums.tensor.name
        destination = sums.step.argument("dst")
        if destination is None and isinstance(sums.step.node, ast.Assign):
            destination = sums.step.node.targets[0]
        require(destination is not None, "the sum's tile is not understood")
        assert destination is not None
        return self.source.one_line(destination)

    def _negation(self) -> tuple[str, str]:
        """A statement that changes the sign of a per-partition operand, and its name."""
        assert self.fusion.negated is not None
        operand = self.fusion.negated[0]
        require(isinstance(operand.node, ast.Name), "the subtracted operand has no name")
        assert operand.view is not None
        tensor = operand.view.tensor
        name = self.speller.fresh(f"neg_{operand.text}")
        nl, nisa = self.speller.prefix("nl"), self.speller.prefix("nisa")
        indent, newline = self._indent(), self.source.newline
        if self.context.legacy:
            return name, f"{indent}{name} = {nl}.negative({operand.text}){newline}"
        creator = self.model.creator(tensor)
        shape = creator.argument("shape") if creator is not None else None
        require(shape is not None and tensor.dtype is not None, "a tile's size is unknown")
        assert shape is not None and tensor.dtype is not None
        made = wrap(
            indent,
            f"{name} = {nl}.ndarray({self.source.one_line(shape)}, dtype={nl}.{tensor.dtype.name}, "
            f"buffer={nl}.sbuf)",
            newline,
        )
        made += wrap(
            indent,
            f"{nisa}.tensor_scalar(dst={name}, data={operand.text}, op0={nl}.multiply, "
            f"operand0=-1.0)",
            newline,
        )
        return name, made

    def _drop_allocation(self, tensor: Tensor) -> None:
        """The tile between two fused statements is no longer needed."""
        creator = self.model.creator(tensor)
        if creator is not None and tensor.allocation:
            self.source.check_whole_lines(creator.node)
            self._cut(creator.node, keep_comment=False)

    def _cut(self, statement: ast.stmt, *, keep_comment: bool) -> str:
        """Take out a statement; its comment comes back, to be put elsewhere."""
        step = self.model.step_of(statement)
        assert step is not None
        first = self.source.comments_above(statement, self._floor(step))
        last = statement.end_lineno or 0
        comment = (
            self.source.extract(first, statement.lineno - 1) if first < statement.lineno else ""
        )
        lines = self.source.lines
        blank_above = first < 2 or not lines[first - 2].strip()
        if blank_above and last < len(lines) and not lines[last].strip():
            last += 1
        self.edits.append(self.source.delete_lines(first, last))
        return comment if keep_comment else ""


__all__ = ["FuseInstructions", "Operation"]
