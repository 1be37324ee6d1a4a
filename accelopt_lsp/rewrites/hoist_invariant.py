"""Move work that is the same in every iteration in front of the loop.

Before::

    for i in range(I):
        g = broadcast_to(gain_row, (128, N))    # Tensor Engine work, the same every time
        use(x[i], g)

After::

    g = broadcast_to(gain_row, (128, N))
    for i in range(I):
        use(x[i], g)
"""

from __future__ import annotations

import ast
from math import prod

from accelopt_lsp.nki.apis import find_api
from accelopt_lsp.nki.dialects import Role
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.rewrites.base import Description, NotApplicable, RewriteContext, Site
from accelopt_lsp.rewrites.hoist_candidates import LOADS, Hoist, candidates
from accelopt_lsp.rewrites.hoist_edits import Mover
from accelopt_lsp.rewrites.model import KernelModel, Step, require
from accelopt_lsp.rewrites.source import Edit
from accelopt_lsp.rewrites.values import Loop, Tensor, View

NAME = "hoist-invariant"
_DEPTH = 4


class HoistInvariant:
    """Moves loop-invariant computation out of loops."""

    name = NAME
    title = "Hoist loop-invariant work"
    tags = ("tensor", "vector", "scalar", "loop-invariant", "broadcast")
    description = Description(
        title=title,
        strategy=(
            "Work inside a loop that uses neither the loop variable nor anything the loop "
            "changes gives the same tile in every iteration. Do it once in front of the loop. "
            "The most expensive case is a broadcast of one row to all partitions, which takes "
            "Tensor Engine passes and copies each time."
        ),
        before=("for i in range(I):\n    g = broadcast_to(row, (128, N))\n    use(x[i], g)"),
        after=("g = broadcast_to(row, (128, N))\nfor i in range(I):\n    use(x[i], g)"),
        bottlenecks=("tensor", "vector", "scalar", "latency"),
        instructions=("nc_matmul", "tensor_copy", "tensor_scalar", "activation"),
        pattern="a statement in a loop whose inputs do not change in the loop",
    )

    def find(self, context: RewriteContext) -> tuple[Site, ...]:
        found = []
        for step in context.model.steps:
            try:
                _, hoist = _moved(context, step)
            except NotApplicable:
                continue
            found.append((step.node.lineno, hoist))
        found.sort(key=lambda f: -_saved_elements(f[1]))
        return tuple(_site(line, hoist, rank) for rank, (line, hoist) in enumerate(found))

    def apply(self, context: RewriteContext, site: Site) -> str:
        line = site.parameters.get("line")
        for step in context.model.steps:
            if line in (None, step.node.lineno):
                try:
                    return _moved(context, step)[0]
                except NotApplicable:
                    continue
        raise NotApplicable("no work that is the same in every iteration")


def _moved(context: RewriteContext, step: Step) -> tuple[str, Hoist]:
    """The text with one statement hoisted, after the loads that it alone waits for.

    Raises:
        NotApplicable: it depends on the loop.
    """
    require(not step.opaque and not step.guarded and bool(step.loops), "not understood")
    require(_computes(context.model, step), "nothing is computed")
    same = ast.unparse(step.node)
    for _ in range(_DEPTH):
        hoist = _candidate(context.model, step)
        if hoist is not None:
            return _InvariantMover(context, hoist).text(), hoist
        context = _with_load_hoisted(context, step)
        found = [s for s in context.model.steps if ast.unparse(s.node) == same]
        require(len(found) == 1, "the statement is written twice")
        step = found[0]
    raise NotApplicable("it waits for too many other statements")


def _with_load_hoisted(context: RewriteContext, step: Step) -> RewriteContext:
    """The kernel with a load in front of the loop whose tile the statement reads."""
    model = context.model
    for access in step.reads:
        for load in model.uses(access.view.tensor)[1]:
            if load.api not in LOADS or load.block is not step.block:
                continue
            for hoist in candidates(model, load):
                if not hoist.kept and hoist.over in step.loops:
                    text = Mover(context, hoist).text()
                    return RewriteContext.from_text(
                        text, context.kernel.qualname, context.arguments, context.target
                    )
    raise NotApplicable("it depends on the loop")


def _saved_elements(hoist: Hoist) -> int:
    shape = hoist.load.writes[0].view.shape if hoist.load.writes else hoist.tile.shape
    size = prod(s or 1 for s in (shape or (1, 1))[1:])
    return size * ((hoist.saved_runs or 2) - 1)


def _site(line: int, hoist: Hoist, rank: int) -> Site:
    over = hoist.over.variable
    times = hoist.saved_runs
    return Site(
        NAME,
        f"{NAME}:{line}:{over}",
        f"Do line {line} once, in front of the loop over {over}",
        {"line": line, "over": over},
        f"runs {times} times less often" if times else "runs once",
        line,
        rank,
    )


def _candidate(model: KernelModel, step: Step) -> Hoist | None:
    """The statement with the outermost loop that it does not depend on."""
    if step.opaque or step.guarded or not step.loops or not _computes(model, step):
        return None
    try:
        tile, allocation = _result(model, step)
    except NotApplicable:
        return None
    over: Loop | None = None
    for loop in reversed(step.loops):
        if not _invariant(model, step, loop):
            break
        over = loop
    if over is None or (over.trips is not None and over.trips < 2):
        return None
    return Hoist(step, tile, allocation, over, (), False)


def _computes(model: KernelModel, step: Step) -> bool:
    """An on-chip computation, or a view that costs work (a broadcast over partitions)."""
    if not step.reads or isinstance(step.node, ast.AugAssign):
        return False
    if step.api is not None:
        entry = find_api(step.api)
        return (
            entry is not None
            and entry.role in (Role.COMPUTE, Role.INSTRUCTION)
            and step.api not in (*LOADS, "nl.store", "nl.loop_reduce")
        )
    node = step.node
    if not isinstance(node, ast.Assign):
        return False
    if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        return node.value.func.attr == "broadcast_to" and model.view(node.value) is not None
    return isinstance(node.value, ast.BinOp) and model.view(node.value) is not None


def _result(model: KernelModel, step: Step) -> tuple[Tensor, Step | None]:
    """The tile that the statement makes, and its declaration if that moves along."""
    target = step.target
    if isinstance(target, ast.Name) and isinstance(step.node, ast.Assign):
        require(model.bound_once(target.id), f"{target.id} is assigned more than once")
        view = model.value(target)
        require(isinstance(view, View), "the result is not understood")
        assert isinstance(view, View)
        if step.writes:
            others = [s for s in model.uses(view.tensor)[1] if s is not step]
            require(not others, f"{target.id} is changed")
        require(view.tensor.buffer is not Buffer.PSUM, "the result is in PSUM")
        return view.tensor, None
    require(len(step.writes) == 1, "several results")
    view = step.writes[0].view
    tensor = view.tensor
    creator = model.creator(tensor)
    require(creator is not None and tensor.api == "nl.ndarray" and view.whole, "a part of a tile")
    assert creator is not None
    require(creator.block is step.block and model.bound_once(tensor.name), "declared elsewhere")
    require(tensor.buffer is Buffer.SBUF, "the result is not in SBUF")
    others = [s for s in model.uses(tensor)[1] if s is not step and s is not creator]
    require(not others, f"{tensor.name} is changed")
    return tensor, creator


def _invariant(model: KernelModel, step: Step, loop: Loop) -> bool:
    """Every input exists in front of the loop and stays the same in it."""
    inside = model.steps_in(loop.node)
    for access in step.reads:
        tensor = access.view.tensor
        if tensor.buffer is Buffer.HBM or tensor.buffer is Buffer.PSUM:
            return False
        creator = model.creator(tensor)
        if creator is not None and loop in creator.loops:
            return False
        if any(s.writes_of(tensor) for s in inside if s is not step):
            return False
        region = access.view.region
        if region is not None and any(loop.symbol in d.symbols() for d in region):
            return False
    return not any(s.opaque for s in inside)


class _InvariantMover(Mover):
    """Moves the statement as it is; every name in it must be known in front of the loop."""

    def _respelled(self) -> list[Edit]:
        node = self.hoist.load.node
        values = [node.value] if isinstance(node, ast.Assign | ast.Expr) else []
        tile = self.hoist.tile.name
        allowed = {tile} if self.hoist.allocation is not None else set()
        for value in values:
            require(self.speller.all_in_scope(value, allowed), "a name in it is bound in the loop")
        return []
