"""Statements of a legacy kernel, one after the other, as current ones."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from accelopt_lsp.analysis.names import Aliases
from accelopt_lsp.analysis.rules.migration.scan import canonical_name
from accelopt_lsp.analysis.rules.migration.tiles import traced_once
from accelopt_lsp.analysis.values import Blocks, View
from accelopt_lsp.nki.lines import split_lines
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.python_source import parse_expression
from accelopt_lsp.rewrites.base import NotApplicable
from accelopt_lsp.rewrites.migrate import expressions as x
from accelopt_lsp.rewrites.migrate.blocks import plan_blocks
from accelopt_lsp.rewrites.migrate.calls import (
    LegacyCall,
    argument_text,
    keyword_text,
    read_call,
)
from accelopt_lsp.rewrites.migrate.indices import access
from accelopt_lsp.rewrites.migrate.layout import laid_out
from accelopt_lsp.rewrites.migrate.masks import NOT_MASKED, Masked, read_mask
from accelopt_lsp.rewrites.migrate.operands import NO_CUTS, Operand
from accelopt_lsp.rewrites.migrate.placing import placed_memory
from accelopt_lsp.rewrites.source import Edit

if TYPE_CHECKING:
    from accelopt_lsp.rewrites.migrate.writer import Writer

_CREATING = frozenset({"nl.ndarray", "nl.zeros", "nl.ones", "nl.full", "nl.empty_like"})
_COMPOUND = (ast.For, ast.While, ast.If, ast.With, ast.Try, ast.FunctionDef)
_AUGMENTED = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Pow: "power",
}
_PRODUCTS = frozenset({"nl.matmul", "nisa.nc_matmul"})


class Translation:
    """Edits that turn the functions of a kernel into current NKI."""

    def __init__(self, writer: Writer, *, partial: bool = False) -> None:
        self.w = writer
        self.partial = partial
        self.edits: dict[int, list[str] | None] = {}
        self.refused: dict[int, str] = {}
        self.statements: dict[int, ast.stmt] = {}
        self.once: set[int] = set()
        self.heads: list[Edit] = []

    def run(self) -> None:
        """Translate every function.

        Raises:
            NotApplicable: a statement has no current form (unless partial).
        """
        for function in self.w.scan.functions:
            self._plan(function)
        for function in self.w.scan.functions:
            self.once |= _read_elsewhere(function, self.w.aliases)
            self._block(function.body)

    # -- block dimensions --------------------------------------------------------------

    def _plan(self, function: ast.AST) -> None:
        for node in ast.walk(function):
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
                continue
            value = self.w.obs.value(node.value)
            target = node.targets[0]
            if isinstance(value, Blocks) and isinstance(target, ast.Name):
                self.w.plans[target.id] = plan_blocks(self.w, target.id, value.storage, node)

    # -- blocks of statements -------------------------------------------------------------

    def _block(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.statements[id(statement)] = statement
            try:
                self._statement(statement)
            except NotApplicable as error:
                if not self.partial:
                    raise
                self.refused[id(statement)] = str(error)
                self.w.lines.clear()
        kept = [s for s in body if self.edits.get(id(s), [""])]
        if not kept and body:
            self.edits[id(body[0])] = ["pass"]

    def _statement(self, node: ast.stmt) -> None:
        w = self.w
        if id(node) in self.once:
            name = ast.unparse(node.target)  # type: ignore[attr-defined]
            raise w.refusal(
                node,
                f"{name} changed once, however often the loop ran; today it changes in every "
                "iteration: write what is meant",
            )
        w.lines = []
        w.current = node
        if isinstance(node, ast.FunctionDef):
            self._block(node.body)
            return
        if isinstance(node, ast.For):
            self._loop_head(node)
            self._block(node.body)
            self._block(node.orelse)
            return
        if isinstance(node, ast.If | ast.While):
            self._check_test(node.test)
            self._block(node.body)
            self._block(node.orelse)
            return
        if isinstance(node, ast.With):
            self._block(node.body)
            return
        if isinstance(node, ast.Import | ast.ImportFrom):
            return
        masked = self._translate(node)
        if masked is None:
            return
        self.edits[id(node)] = self._guarded(masked)

    def _loop_head(self, node: ast.For) -> None:
        """Loops of ``nl`` take no directives any more."""
        call = node.iter
        if not isinstance(call, ast.Call) or not call.keywords:
            return
        if (canonical_name(call.func, self.w.aliases) or "").endswith("_range"):
            source = self.w.source
            given = ", ".join(source.one_line(a) for a in call.args)
            self.heads.append(source.replace(call, f"{source.of(call.func)}({given})"))

    def _check_test(self, node: ast.expr) -> None:
        if self.w.is_tensor(node) or self.w.is_index(node):
            raise self.w.refusal(node, "a condition on a tile or an index")

    def _guarded(self, masked: Masked) -> list[str]:
        lines: list[str] = []
        if not masked.conditions:
            return [text for text, _ in self.w.lines]
        opened = False
        head = "if " + " and ".join(masked.conditions) + ":"
        for text, guarded in self.w.lines:
            if guarded and not opened:
                lines.append(head)
            opened = guarded
            lines.append(f"\t{text}" if guarded else text)
        return lines

    # -- simple statements ---------------------------------------------------------------------

    def _translate(self, node: ast.stmt) -> Masked | None:
        """Write the lines of a statement; None leaves it as it is."""
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            return self._assign(node, node.targets[0], node.value)
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            return self._assign(node, node.target, node.value)
        if isinstance(node, ast.AugAssign):
            return self._augmented(node)
        if isinstance(node, ast.Expr):
            return self._expression(node)
        if isinstance(node, ast.Return) and node.value is not None:
            return self._plain(node, node.value, "return ")
        if isinstance(node, ast.Assert):
            return None
        for child in ast.walk(node):
            if isinstance(child, ast.expr) and self._old(child):
                raise self.w.refusal(node, "a statement that is not migrated")
        return None

    def _old(self, node: ast.expr) -> bool:
        return self.w.is_index(node)

    def _plain(self, node: ast.stmt, value: ast.expr, head: str) -> Masked | None:
        """A statement whose expression only needs other names and slices."""
        text = self.w.text(value)
        if not self.w.lines and text == self.w.source.one_line(value):
            return None
        self.w.emit(f"{head}{text}")
        return NOT_MASKED

    def _mask_of(self, node: ast.AST) -> Masked:
        call = read_call(self.w, node)
        return NOT_MASKED if call is None else read_mask(self.w, call.get("mask"))

    def _assign(
        self, node: ast.Assign | ast.AnnAssign, target: ast.expr, value: ast.expr
    ) -> Masked | None:
        w = self.w
        if w.is_index(value):
            return NOT_MASKED  # an index: written where it is used
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            if all(w.is_index(v) for v in value.elts):
                return NOT_MASKED
        if isinstance(target, ast.Subscript) and w.is_tensor(target.value):
            return self._into_tile(node, target, value)
        call = read_call(w, value)
        if isinstance(target, ast.Name) and call is not None and call.name in _CREATING:
            return self._creation(node, target.id, call)
        if not isinstance(target, ast.Name) or not w.is_tensor(value):
            return self._plain(node, value, f"{w.source.one_line(target)} = ")
        if call is None and x.operation(w, value) is None:
            return self._plain(node, value, f"{target.id} = ")
        if call is not None and call.name in ("nl.shared_constant", "nl.expand_dims"):
            return self._plain(node, value, f"{target.id} = ")
        masked = self._mask_of(value)
        if masked.never:
            raise w.refusal(node, "a mask that leaves nothing")
        again = any(isinstance(n, ast.Name) and n.id == target.id for n in ast.walk(value))
        if not again:
            x.named(w, target.id, value, masked.cuts)
            return masked
        kept = None
        view = w.obs.view(value)
        if call is not None and not masked.cuts and view is not None:
            kept = x.composite(w, call, view)
        if kept is not None:
            w.emit(f"{target.id} = {kept}", guarded=False)
            return masked
        name = w.fresh(f"new_{target.id}")
        x.named(w, name, value, masked.cuts)
        w.emit(f"{target.id} = {name}", guarded=False)
        return masked

    def _into_tile(self, node: ast.stmt, target: ast.Subscript, value: ast.expr) -> Masked:
        w = self.w
        masked = self._mask_of(value)
        if masked.never:
            return NOT_MASKED
        call = read_call(w, value)
        if call is not None and call.name == "nl.loop_reduce":
            self._loop_reduce(access(w, target), call)
            return masked
        whole = access(w, target)
        cut = access(w, target, masked.cuts)
        product = call is not None and call.name in _PRODUCTS
        overwrite = product and self._reused(target)
        w.destination = (whole, cut)
        try:
            x.into(w, whole, value, masked.cuts, overwrite=overwrite)
        finally:
            w.destination = None
        return masked

    def _loop_reduce(self, place: Operand, call: LegacyCall) -> None:
        """A copy in the first iteration, the operation in all others."""
        w = self.w
        value, op, loops = call.get("x"), call.get("op"), call.get("loop_indices")
        if value is None or op is None or not isinstance(loops, ast.List | ast.Tuple):
            raise w.refusal(call.node, "nl.loop_reduce over loops that are not named")
        source = w.operand(value)
        names = [w.text(e) for e in loops.elts]
        first = " and ".join(f"{n} == 0" for n in names)
        w.emit(f"if {first}:")
        w.emit(f"\t{w.nisa}.tensor_copy(dst={place.text}, src={source.text})")
        w.emit("else:")
        w.emit(
            f"\t{w.nisa}.tensor_tensor(dst={place.text}, data1={place.text}, "
            f"data2={source.text}, op={argument_text(w, 'op', op, NO_CUTS)})"
        )

    def _reused(self, target: ast.Subscript) -> bool:
        """Whether a PSUM tile lives longer than one execution of a statement."""
        w = self.w
        root: ast.expr = target
        while isinstance(root, ast.Subscript):
            root = root.value
        if not isinstance(root, ast.Name):
            return True
        loops = w.loops_of(target)
        plan = w.plans.get(root.id)
        if plan is not None and not plan.lists:
            home = w.loops_of(plan.loop.body[0]) if plan.loop is not None else ()
            return home != loops
        found = list(w.assignments(root.id, w.function_of(target)))
        return len(found) != 1 or w.loops_of(found[0]) != loops

    def _augmented(self, node: ast.AugAssign) -> Masked | None:
        w = self.w
        target = node.target
        if not w.is_tensor(target):
            return self._plain_augmented(node)
        masked = self._mask_of(node.value)
        if masked.never:
            return NOT_MASKED
        call = read_call(w, node.value)
        if isinstance(target, ast.Subscript):
            whole = access(w, target)
            cut = access(w, target, masked.cuts)
        else:
            whole = w.operand(target)
            cut = w.operand(target, masked.cuts)
        adds = isinstance(node.op, ast.Add)
        if adds and call is not None and call.name in _PRODUCTS:
            if whole.buffer is Buffer.PSUM:
                w.destination = (whole, cut)
                x.into(w, whole, node.value, masked.cuts)
                w.destination = None
                return masked
        name = _AUGMENTED.get(type(node.op))
        if name is None:
            raise w.refusal(node, "this operator in place")
        if w.is_tensor(node.value):
            other = w.operand(node.value, masked.cuts)
            x.two_tiles(w, cut, name, cut, other, node)
        else:
            x.with_number(w, cut, name, cut, w.text(node.value), reverse=False, node=node)
        return masked

    def _plain_augmented(self, node: ast.AugAssign) -> Masked | None:
        if any(isinstance(n, ast.expr) and self.w.is_index(n) for n in ast.walk(node)):
            raise self.w.refusal(node, "an index that changes in place")
        return None

    def _creation(self, node: ast.stmt, name: str, call: LegacyCall) -> Masked | None:
        """``name = nl.ndarray(...)``: blocks become lists of tiles or move into their loop."""
        w = self.w
        value = w.obs.value(call.node)
        plan = w.plans.get(name)
        text = self._created(call, name, value)
        if plan is not None and isinstance(value, Blocks):
            declared = f"{name} = {plan.declared(text)}"
            if plan.loop is not None:
                w.at_start.setdefault(id(plan.loop), []).append(declared)
                return NOT_MASKED
            w.emit(declared)
            return NOT_MASKED
        if ast.dump(parse_expression(text)) == ast.dump(call.node):
            return None
        w.emit(f"{name} = {text}")
        return NOT_MASKED

    def _created(self, call: LegacyCall, name: str, value: object) -> str:
        w = self.w
        storage = value.storage if isinstance(value, View | Blocks) else None
        if storage is None:
            raise w.refusal(call.node, "a tensor whose shape is not known")
        shape = call.get("shape")
        given = call.get("dtype")
        dtype = w.text(given) if given is not None else w.dtype_text(storage.dtype)
        if isinstance(given, ast.Constant):
            dtype = w.dtype_text(storage.dtype)
        sizes = self._sizes(shape, storage.blocks, storage.tile_shape)
        short = call.short
        if storage.buffer is Buffer.PSUM and short == "zeros" and self._only_products(name):
            short = "ndarray"
        buffer, address = self._memory(call, storage.buffer)
        parts = [sizes]
        if short == "full":
            fill = call.get("fill_value")
            parts.append(w.text(fill) if fill is not None else "0.0")
        if short == "empty_like":
            short = "ndarray"
        parts += [f"dtype={dtype}", f"buffer={buffer}"]
        if address:
            parts.append(f"address={address}")
        return f"{w.nl}.{short}({', '.join(parts)})"

    def _sizes(self, shape: ast.expr | None, blocks: int, tile: tuple[int, ...]) -> str:
        w = self.w
        if isinstance(shape, ast.Tuple | ast.List) and len(shape.elts) == blocks + len(tile):
            texts = []
            for element in shape.elts[blocks:]:
                if isinstance(element, ast.Call) and len(element.args) == 1:
                    name = canonical_name(element.func, w.aliases)
                    if name == "nl.par_dim":
                        texts.append(w.text(element.args[0]))
                        continue
                texts.append(w.text(element))
            return "(" + ", ".join(texts) + ("," if len(texts) == 1 else "") + ")"
        if shape is not None and not blocks and not isinstance(shape, ast.Tuple | ast.List):
            text = w.text(shape)
            value = w.obs.value(shape)
            if isinstance(value, tuple) and value == tile:
                return text
        return "(" + ", ".join(map(str, tile)) + ("," if len(tile) == 1 else "") + ")"

    def _memory(self, call: LegacyCall, buffer: Buffer) -> tuple[str, str]:
        """Buffer and address of a tile."""
        w = self.w
        given = call.get("buffer")
        if isinstance(given, ast.Call):
            return placed_memory(w, call, given)
        if given is not None and not isinstance(given, ast.Constant):
            return w.text(given), ""
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            return f"{w.nl}.{given.value}", ""
        return f"{w.nl}.{buffer.value if buffer.on_chip else 'shared_hbm'}", ""

    def _only_products(self, name: str) -> bool:
        """Whether nothing but matrix products writes a PSUM tensor."""
        w = self.w
        for node in w.nodes:
            target: ast.expr | None = None
            if isinstance(node, ast.Assign):
                target = node.targets[0]
            elif isinstance(node, ast.AugAssign):
                target = node.target
            if target is None:
                continue
            root = target
            while isinstance(root, ast.Subscript):
                root = root.value
            if not isinstance(root, ast.Name) or root.id != name:
                continue
            assert isinstance(node, ast.Assign | ast.AugAssign)
            if isinstance(target, ast.Name) and isinstance(node, ast.Assign):
                continue
            call = read_call(w, node.value)
            if call is None or call.name not in _PRODUCTS:
                return False
        return True

    def _expression(self, node: ast.Expr) -> Masked | None:
        w = self.w
        value = node.value
        call = read_call(w, value)
        if call is None:
            if isinstance(value, ast.Constant):
                return None
            return self._plain(node, value, "")
        masked = read_mask(w, call.get("mask"))
        if masked.never:
            return NOT_MASKED
        if call.name == "nl.store":
            self._store(call, masked)
        elif call.name == "nl.atomic_rmw":
            self._add_to(call, "dst", "value", masked)
        elif call.name == "nisa.dma_copy" and self._given(call, "dst_rmw_op"):
            self._add_to(call, "dst", "src", masked)
        elif call.name == "nisa.tensor_copy_dynamic_dst":
            self._call(call, "tensor_copy", masked)
        elif call.name == "nisa.dma_copy":
            self._call(call, "dma_copy", masked, skip=frozenset({"dst_rmw_op"}))
        elif call.name.startswith("nisa."):
            self._call(call, call.short, masked)
        else:
            return self._plain(node, value, "")
        return self._unchanged(node, masked)

    def _unchanged(self, node: ast.Expr, masked: Masked) -> Masked | None:
        """None if the one line that was written says what the statement said."""
        if len(self.w.lines) == 1 and not masked.conditions:
            text = self.w.lines[0][0]
            try:
                same = ast.dump(parse_expression(text)) == ast.dump(node.value)
            except SyntaxError:
                same = False
            if same:
                return None
        return masked

    def _given(self, call: LegacyCall, name: str) -> bool:
        node = call.get(name)
        return node is not None and not (isinstance(node, ast.Constant) and node.value is None)

    def _call(
        self,
        call: LegacyCall,
        short: str,
        masked: Masked,
        skip: frozenset[str] = frozenset(),
    ) -> None:
        """An instruction that takes its destination already."""
        w = self.w
        dst = call.get("dst")
        renamed = LegacyCall(f"nisa.{short}", call.node, call.given)
        parts = keyword_text(w, renamed, masked.cuts, skip | {"dst"})
        if dst is not None:
            parts.insert(0, f"dst={w.operand(dst, masked.cuts).text}")
        w.emit(f"{w.nisa}.{short}({', '.join(parts)})")

    def _store(self, call: LegacyCall, masked: Masked) -> None:
        w = self.w
        dst, value = call.get("dst"), call.get("value")
        if dst is None or value is None:
            raise w.refusal(call.node, "nl.store without value")
        place = w.operand(dst, masked.cuts)
        if not w.is_tensor(value):
            x.fill(w, place, w.text(value))
            return
        source = x.in_sbuf(w, w.operand(value, masked.cuts))
        view = w.obs.view(dst) if not isinstance(dst, ast.Subscript) else w.obs.place(dst)
        run_time = view is not None and view.dynamic is not None
        if masked.cuts or run_time:
            w.emit(f"{w.nisa}.dma_copy(dst={place.text}, src={source.text})")
            return
        keyword = "value=" if len(call.node.args) < 2 else ""
        w.emit(f"{w.nl}.store({place.text}, {keyword}{source.text})")

    def _add_to(self, call: LegacyCall, to: str, what: str, masked: Masked) -> None:
        """A transfer that adds to what its destination holds."""
        w = self.w
        dst, value = call.get(to), call.get(what)
        if dst is None or value is None:
            raise w.refusal(call.node, f"{call.name} without {to} and {what}")
        place = w.operand(dst, masked.cuts)
        source = w.operand(value, masked.cuts)
        w.emit(
            f"{w.nisa}.dma_compute(dst={place.text}, srcs=[{source.text}, {place.text}], "
            f"reduce_op={w.nl}.add)"
        )

    # -- the new text -----------------------------------------------------------------------

    def changes(self) -> list[Edit]:
        """Edits of the source for everything that was translated."""
        w, source = self.w, self.w.source
        edits: list[Edit] = list(self.heads)
        for key, statement in self.statements.items():
            inserted = list(w.before.get(key, ()))
            parent = w.parents.get(key)
            if isinstance(parent, ast.For) and parent.body and parent.body[0] is statement:
                inserted = [*inserted, *w.at_start.get(id(parent), ())]
            lines = self.edits.get(key)
            refused = self.refused.get(key)
            if refused is not None:
                reason = refused.partition(": ")[2] or refused
                inserted.append(f"# accelopt: migrate by hand: {reason}")
            if not inserted and key not in self.edits:
                continue
            indent = source.indent_of(statement)
            unit = source.indent_unit(self.w.scan.kernel)
            head = "".join(_line(indent, unit, text, source.newline) for text in inserted)
            first = source.first_line(statement)
            if key not in self.edits:
                edits.append(source.insert_before_line(first, head))
                continue
            source.check_whole_lines(statement)
            last = statement.end_lineno or first
            body = "".join(_line(indent, unit, text, source.newline) for text in lines or ())
            body = _with_comment(source.lines[last - 1], statement, body, indent, source.newline)
            start, end = source.line_range(first, last)
            edits.append(Edit(start, end, head + body))
        return edits


def _read_elsewhere(function: ast.AST, aliases: Aliases) -> set[int]:
    """Numbers that loops change, as far as anything but the change itself reads them."""
    found: set[int] = set()
    for node in traced_once(function, aliases):
        name = ast.unparse(node.target)
        inside = {id(n) for n in ast.walk(node)}
        reads = (
            n
            for n in ast.walk(function)
            if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)
        )
        if any(id(n) not in inside for n in reads):
            found.add(id(node))
    return found


def _line(indent: str, unit: str, text: str, newline: str) -> str:
    while text.startswith("\t"):
        indent, text = indent + unit, text[1:]
    if text.startswith("#"):
        return f"{indent}{text}{newline}"
    return laid_out(indent, text, unit, newline)


def _with_comment(last: str, statement: ast.stmt, body: str, indent: str, newline: str) -> str:
    """The comment behind a statement stays behind the line that replaces it, or above."""
    tail = last.encode()[statement.end_col_offset or 0 :].decode().strip()
    if not tail.startswith("#") or not body:
        return body
    lines = split_lines(body)
    if len(lines) == 1 and len(lines[0].rstrip()) + 2 + len(tail) <= 100:
        return f"{lines[0].rstrip()}  {tail}{newline}"
    return f"{indent}{tail}{newline}{body}"
