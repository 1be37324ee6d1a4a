"""State of one migration: names, values, and the lines that replace a statement."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from attrs import define, field

from accelopt_lsp.analysis.names import Aliases
from accelopt_lsp.analysis.references import OPERATOR_NAMES
from accelopt_lsp.analysis.rules.migration.scan import Scan, canonical_name
from accelopt_lsp.analysis.values import Blocks, Grid, IndexArray, Mask, View
from accelopt_lsp.nki.dtypes import DType, find_dtype, get_dtype
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.python_source import parse_expression
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.rewrites.base import NotApplicable
from accelopt_lsp.rewrites.migrate.blocks import BlockPlan
from accelopt_lsp.rewrites.migrate.indices import Element, _index_text, access
from accelopt_lsp.rewrites.migrate.observe import Observation
from accelopt_lsp.rewrites.migrate.operands import NO_CUTS, Cuts, Operand, Span
from accelopt_lsp.rewrites.source import Edit, SourceText, apply_edits

_NUMPY_TYPES = {"float64": "float32", "int64": "int32", "bool": "bool_", "double": "float32"}
_FP32_MIN = "-3.4028234663852886e38"
_NUMPY_HOST = frozenset({"inf", "pi", "nan", "e", "newaxis"})


@define(slots=True, eq=False)
class Writer:
    """What migrating one kernel knows and has written so far."""

    source: SourceText
    scan: Scan
    obs: Observation
    aliases: Aliases
    target: Target
    modules: Mapping[str, str]
    parents: dict[int, ast.AST] = field(factory=dict)
    plans: dict[str, BlockPlan] = field(factory=dict)
    used: set[str] = field(factory=set)
    lines: list[tuple[str, bool]] = field(factory=list)
    at_start: dict[int, list[str]] = field(factory=dict)
    clamps: dict[tuple[int, str], str] = field(factory=dict)
    before: dict[int, list[str]] = field(factory=dict)
    needed: set[str] = field(factory=set)
    current: ast.stmt | None = None
    temporaries: dict[int, Operand] = field(factory=dict)
    open: set[int] = field(factory=set)
    destination: tuple[Operand, Operand] | None = None

    def __attrs_post_init__(self) -> None:
        for function in self.scan.functions:
            for node in ast.walk(function):
                for child in ast.iter_child_nodes(node):
                    self.parents[id(child)] = node
        self.used |= {n.id for n in self.scan.nodes if isinstance(n, ast.Name)}
        self.used |= {n.arg for n in self.scan.nodes if isinstance(n, ast.arg)}
        self.used |= set(self.aliases.table)

    @property
    def nodes(self) -> tuple[ast.AST, ...]:
        return self.scan.nodes

    # -- where things stand ----------------------------------------------------------

    def refusal(self, node: ast.AST | None, reason: str) -> NotApplicable:
        line = getattr(node, "lineno", None)
        return NotApplicable(f"line {line}: {reason}" if line else reason)

    def loops_of(self, node: ast.AST) -> tuple[ast.For, ...]:
        """Loops around a node, outermost first."""
        found: list[ast.For] = []
        child, parent = node, self.parents.get(id(node))
        while parent is not None:
            if isinstance(parent, ast.For) and child in parent.body:
                found.append(parent)
            child, parent = parent, self.parents.get(id(parent))
        return tuple(reversed(found))

    def statement_of(self, node: ast.AST) -> ast.stmt:
        current: ast.AST | None = node
        while current is not None and not isinstance(current, ast.stmt):
            current = self.parents.get(id(current))
        assert isinstance(current, ast.stmt)
        return current

    def function_of(self, node: ast.AST) -> ast.AST:
        current: ast.AST | None = node
        while current is not None:
            if isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef) and current is not node:
                return current
            current = self.parents.get(id(current))
        return self.scan.kernel

    def is_placed(self, node: ast.AST) -> bool:
        """Whether a statement creates a tile at a place of the writer's choice."""
        return any(
            isinstance(n, ast.Call)
            and (canonical_name(n.func, self.aliases) or "").startswith(("ncc.sbuf.", "ncc.psum."))
            for n in ast.walk(node)
        )

    def assignments(self, name: str, function: ast.AST) -> Iterator[ast.stmt]:
        """Statements of a function that bind a name."""
        for node in ast.walk(function):
            targets: list[ast.expr] = []
            if isinstance(node, ast.Assign):
                targets = node.targets
            elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For):
                targets = [node.target]
            for target in targets:
                names = ast.walk(target) if not isinstance(target, ast.Subscript) else ()
                if any(isinstance(n, ast.Name) and n.id == name for n in names):
                    assert isinstance(node, ast.stmt)
                    yield node

    def definition(self, name: ast.Name) -> ast.expr | None:
        """What a name was given, if there is exactly one place."""
        found = list(self.assignments(name.id, self.function_of(name)))
        if len(found) != 1 or not isinstance(found[0], ast.Assign):
            return None
        target, value = found[0].targets[0], found[0].value
        if isinstance(target, ast.Name):
            return value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, other in zip(target.elts, value.elts, strict=False):
                if isinstance(one, ast.Name) and one.id == name.id:
                    return other
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Subscript):
            # p, f = nl.mgrid[a:b, c:d]: each name has its slice.
            index = value.slice
            if isinstance(index, ast.Tuple) and len(index.elts) == len(target.elts):
                for one, other in zip(target.elts, index.elts, strict=True):
                    if isinstance(one, ast.Name) and one.id == name.id:
                        return other
        return None

    # -- text --------------------------------------------------------------------------

    def module(self, short: str) -> str:
        """Local name of ``nl`` or ``nisa``."""
        self.needed.add(short)
        return self.modules.get(short, short)

    @property
    def nl(self) -> str:
        return self.module("nl")

    @property
    def nisa(self) -> str:
        return self.module("nisa")

    def fresh(self, wanted: str) -> str:
        """A name that nothing in the file has."""
        name, number = wanted, 2
        while name in self.used:
            name, number = f"{wanted}_{number}", number + 1
        self.used.add(name)
        return name

    def text(self, node: ast.expr) -> str:
        """An expression of the source with NumPy's names exchanged, on one line."""
        edits = list(self._edits(node))
        if not edits:
            return self.source.one_line(node)
        start, end = self.source.span(node)
        inner = [Edit(e.start - start, e.end - start, e.text) for e in edits]
        text = apply_edits(self.source.text[start:end], inner)
        return " ".join(line.strip() for line in text.splitlines())

    def _edits(self, node: ast.AST) -> Iterator[Edit]:
        number = self.plain_number(node)
        if number is not None:
            yield self.source.replace(node, number)
            return
        if self.is_tensor(node) and isinstance(node, ast.expr):
            plain = isinstance(node, ast.Name | ast.Attribute | ast.IfExp)
            if not plain and id(node) not in self.open:
                self.open.add(id(node))
                try:
                    text = self.operand(node).text
                finally:
                    self.open.discard(id(node))
                if text != self.source.one_line(node):
                    yield self.source.replace(node, text)
                return
        if isinstance(node, ast.Call):
            name = canonical_name(node.func, self.aliases) or ""
            if name.startswith("np."):
                # Computed on the host, before the kernel is traced.
                return
        if isinstance(node, ast.Attribute | ast.Name):
            name = canonical_name(node, self.aliases) or ""
            short = name.partition(".")[2]
            if isinstance(node, ast.Attribute) and node.attr in ("dtype", "shape"):
                owner = self.obs.value(node.value)
                if isinstance(owner, Blocks):
                    # A list of tiles has neither.
                    literal = self.dtype_text(owner.storage.dtype)
                    text = literal if node.attr == "dtype" else str(owner.shape)
                    yield self.source.replace(node, text)
                    return
            if name == "nl.fp32.min":
                yield self.source.replace(node, _FP32_MIN)
                return
            if name.startswith("np.") and short not in _NUMPY_HOST and "." not in short:
                yield self.source.replace(node, f"{self.nl}.{self.numpy_name(short)}")
                return
            if name.startswith("nisa.") and isinstance(node, ast.Attribute):
                value = node.value
                if isinstance(value, ast.Attribute) and name.count(".") == 1:
                    # nki.isa.X: the module by the name that the file gives it.
                    yield self.source.replace(node, f"{self.nisa}.{short}")
                    return
        for child in ast.iter_child_nodes(node):
            yield from self._edits(child)

    def numpy_name(self, name: str) -> str:
        """The ``nl`` name of a NumPy type or operator."""
        if find_dtype(_NUMPY_TYPES.get(name, name)) is not None:
            return _NUMPY_TYPES.get(name, name)
        return OPERATOR_NAMES.get(name, name)

    def plain_number(self, node: ast.AST) -> str | None:
        """The number in ``np.float32(0.5)`` and ``np.dtype(np.float32).type(0.5)``."""
        if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
            return None
        func, given = node.func, node.args[0]
        name = canonical_name(func, self.aliases) or ""
        typed = name.startswith("np.") and find_dtype(name.partition(".")[2]) is not None
        if isinstance(func, ast.Attribute) and func.attr == "type":
            inner = func.value
            typed = isinstance(inner, ast.Call) and (
                canonical_name(inner.func, self.aliases) == "np.dtype"
            )
        if typed and isinstance(given, ast.Constant | ast.UnaryOp):
            return self.source.one_line(given)
        return None

    def dtype_text(self, dtype: DType, like: Operand | None = None) -> str:
        if like is not None and like.name is not None and like.dtype == dtype:
            return f"{like.name}.dtype"
        return f"{self.nl}.{dtype.name}"

    @property
    def float32(self) -> DType:
        return get_dtype("float32")

    def transpose_dtype(self, dtype: DType) -> DType:
        """What the Tensor Engine transposes into: NeuronCore-v2 writes PSUM in float32 only."""
        return self.float32 if self.target.generation < 3 else dtype

    def like(self, made: Operand, other: Operand) -> Operand:
        """The part of a new tile that has the place of a cut operand."""
        if not other.cut:
            return made
        index = other.text[other.text.index("[") :] if other.text.endswith("]") else ""
        return Operand(f"{made.text}{index}", made.shape, made.dtype, made.buffer, None, True)

    def rewritten(self, node: ast.expr) -> str:
        """An expression with everything in it that is a tile rewritten."""
        start, end = self.source.span(node)
        edits = [e for child in ast.iter_child_nodes(node) for e in self._edits(child)]
        inner = [Edit(e.start - start, e.end - start, e.text) for e in edits]
        text = apply_edits(self.source.text[start:end], inner)
        return " ".join(line.strip() for line in text.splitlines())

    def size_text(self, size: int) -> str:
        return str(size)

    # -- writing down --------------------------------------------------------------------

    def emit(self, line: str, *, guarded: bool = True) -> None:
        """Write a statement; ``guarded``: it only happens where the mask leaves anything."""
        self.lines.append((line, guarded))

    def declare(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: str,
        buffer: Buffer,
        like: Operand | None = None,
    ) -> None:
        sizes = ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "")
        shaped = f"({sizes})"
        if like is not None and like.name is not None and like.shape == shape and not like.cut:
            shaped = f"{like.name}.shape"
        memory = "psum" if buffer is Buffer.PSUM else "sbuf"
        self.emit(
            f"{name} = {self.nl}.ndarray({shaped}, dtype={dtype}, buffer={self.nl}.{memory})",
            guarded=False,
        )

    def clamp(self, node: ast.expr, text: str, axis: int, rank: int, size: int) -> str:
        """A name for a clamped size, assigned in the body that all of it depends on."""
        if text.isidentifier() or text.isdigit():
            return text
        statement = self.statement_of(node)
        place = self._home(text, statement)
        key = (id(place), text)
        known = self.clamps.get(key)
        if known is not None:
            return known
        name = self.fresh("rows" if axis == 0 else "columns" if axis == rank - 1 else "depth")
        self.clamps[key] = name
        self.before.setdefault(id(place), []).append(f"{name} = {text}")
        return name

    def _home(self, text: str, statement: ast.stmt) -> ast.stmt:
        """The statement before which names of a text are all known, as far out as possible."""
        names = {n.id for n in ast.walk(parse_expression(text)) if isinstance(n, ast.Name)}
        function = self.function_of(statement)
        chain: list[ast.stmt] = [statement]
        loops: list[ast.stmt] = []
        current: ast.AST | None = self.parents.get(id(statement))
        while current is not None and current is not function:
            if isinstance(current, ast.stmt):
                chain.append(current)
            if isinstance(current, ast.For):
                loops.append(current)
            current = self.parents.get(id(current))
        # chain: the statement, then what encloses it, innermost first.
        for position, enclosing in enumerate(chain):
            outer = chain[position + 1] if position + 1 < len(chain) else None
            if outer is None:
                return self._after(names, function, enclosing, statement)
            if isinstance(outer, ast.For):
                bound = {n.id for n in ast.walk(outer.target) if isinstance(n, ast.Name)}
                inside = {
                    n.id
                    for child in outer.body
                    for n in ast.walk(child)
                    if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
                }
                if names & inside:
                    return enclosing
                if names & bound:
                    return outer.body[0]
            elif not isinstance(outer, ast.With):
                return enclosing
        return statement

    def _after(
        self, names: set[str], function: ast.AST, enclosing: ast.stmt, statement: ast.stmt
    ) -> ast.stmt:
        return enclosing

    # -- tensors ---------------------------------------------------------------------------

    def is_tensor(self, node: ast.AST) -> bool:
        return isinstance(self.obs.value(node), View | Blocks)

    def is_index(self, node: ast.AST) -> bool:
        """Whether an expression only serves to index and mask."""
        value = self.obs.value(node)
        if isinstance(value, tuple) and value:
            return all(isinstance(v, IndexArray | Mask | Grid) for v in value)
        return isinstance(value, IndexArray | Mask | Grid)

    def operand(self, node: ast.expr, cuts: Cuts = NO_CUTS) -> Operand:
        """A tensor as an operand: a name, a slice, or a temporary for anything else."""
        known = self.temporaries.get(id(node))
        if known is not None:
            return self.sliced(known, cuts)
        if isinstance(node, ast.Subscript) and self.is_tensor(node.value):
            return access(self, node, cuts)
        if isinstance(node, ast.Name | ast.Attribute):
            value = self.obs.value(node)
            if isinstance(value, Blocks):
                raise self.refusal(node, "a tensor with block dimensions, taken as a whole")
            view = self.obs.view(node)
            if view is None:
                raise self.refusal(node, f"what {self.source.one_line(node)} is is not known")
            text = self.source.one_line(node)
            name = text if text.isidentifier() else None
            return self.sliced(Operand.of(text, view, name=name), cuts)
        from accelopt_lsp.rewrites.migrate.expressions import temporary

        return self.sliced(temporary(self, node, cuts), cuts)

    def sliced(self, operand: Operand, cuts: Cuts) -> Operand:
        """The part of a named tile that a mask leaves."""
        found = cuts.of(operand.shape)
        if not found or operand.cut:
            return operand
        if self.destination is not None and operand == self.destination[0]:
            return self.destination[1]
        parts = []
        for axis, size in enumerate(operand.shape):
            span = Span("0", str(size))
            cut = found.get(axis)
            parts.append((span if cut is None else span.cut(cut)).text())
        text = f"{operand.text}[{', '.join(parts)}]"
        return Operand(text, operand.shape, operand.dtype, operand.buffer, None, True)

    def block_text(self, root: ast.expr, elements: list[Element]) -> str:
        """A tile of a tensor that had block dimensions."""
        if not isinstance(root, ast.Name):
            raise self.refusal(root, "a tensor with block dimensions that has no name")
        plan = self.plans.get(root.id)
        if plan is None:
            raise self.refusal(root, f"block dimensions of {root.id} that were not planned")
        return plan.text([_index_text(self, e) for e in elements])
