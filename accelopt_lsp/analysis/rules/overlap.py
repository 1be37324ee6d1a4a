"""What keeps engines and transfers from working side by side, and what spills."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence

from accelopt_lsp.analysis.dependences import Use
from accelopt_lsp.analysis.rules.base import Context, Rule
from accelopt_lsp.analysis.rules.slow import LEAST_SHARE, SlowRule, percent, turning
from accelopt_lsp.analysis.tree import function_node, span_of
from accelopt_lsp.nki.diagnostics import Diagnostic, Severity
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.figures import size_text, time_text
from accelopt_lsp.nki.operands import Buffer, Engine
from accelopt_lsp.nki.workload import Dependence, Waiting

LEAST_SERIAL = 0.1
"""Share of the estimated time that two stages must take each, to be worth overlapping."""
DMA = Engine.DMA.value


def _names(engines: tuple[str, ...]) -> str:
    return " and ".join("DMA" if e == DMA else e for e in engines)


class SpillPressure(SlowRule):
    """## What it does
    Finds kernels whose live tiles together do not fit into SBUF, and who holds most of it.

    ## Why
    The compiler saves tiles to HBM and loads them again, which costs bandwidth twice. Each body is
    read once, so the sum of live tiles is an estimate.

    ## Example
    ```python
    for i in range(64):
        tiles.append(nl.load(x[i]))  # 64 x 8 KiB a partition
    ```

    ## Use instead
    Smaller blocks, fused loops that use a tile right after it was made, or tiles created in the
    innermost loop that uses them.
    """

    code = "P02"
    name = "spill-pressure"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        work, target = context.workload, context.machine.target
        usable = target.integer("sbuf_partition_bytes") - target.integer("sbuf_reserved_bytes")
        live = work.sbuf_peak_bytes
        if live is None or live <= usable or context.machine.placed or not work.sbuf_holders:
            return
        whole = target.integer("sbuf_partition_bytes")
        tiles = (s for s in context.machine.storages if s.buffer is Buffer.SBUF)
        if any(tile.partition_bytes > whole for tile in tiles):
            return  # a tile that cannot be placed at all is told as such
        holder = work.sbuf_holders[0]
        node = _creator(context, holder.name, holder.line)
        spilled = (live - usable) * target.integer("partitions")
        rate = target["dma_engine_rate"] * target["dma_engines"]
        share = min(1.0, 2 * spilled / rate / context.latency_ns)
        text = (
            f"about {size_text(live)} of SBUF a partition are live at line "
            f"{work.sbuf_peak_line}, {size_text(usable)} can be used: expect spills; "
            f"`{holder.name or 'this tile'}` holds {size_text(holder.partition_bytes)}"
        )
        related = tuple(
            context.related(h.line, f"`{h.name}` holds {size_text(h.partition_bytes)}")
            for h in work.sbuf_holders[1:4]
            if h.name and h.partition_bytes >= live / 20
        )
        yield from self.report(context, node, max(share, 0.05), text, related=related)


def _creator(context: Context, name: str, line: int) -> ast.AST:
    for storage in context.machine.storages:
        if storage.line == line and storage.name == name and storage.node is not None:
            return storage.node
    return ast.Pass(lineno=line, col_offset=0, end_lineno=line, end_col_offset=0)


class _WaitingRule(SlowRule):
    """Rules about tiles through which iterations wait for each other."""

    def dependences(self, context: Context) -> Iterator[tuple[Dependence, float]]:
        """Waits with the share of the time that they cost, each tile once."""
        seen: set[tuple[str, int]] = set()
        for wait in context.workload.dependences:
            key = (wait.tensor, wait.line)
            if key not in seen and wait.waiting is not Waiting.PRODUCT:
                share = min(1.0, wait.lost_ns / context.latency_ns)
                seen.add(key)
                yield wait, share

    def about(
        self,
        context: Context,
        wait: Dependence,
        share: float,
        text: str,
        others: Sequence[Dependence] = (),
    ) -> Iterator[Diagnostic]:
        if share < LEAST_SHARE:
            return
        node = _creator(context, wait.tensor, wait.line)
        loop = f"each iteration over {wait.variable} waits for the one before"
        related = [context.related(wait.loop_line, loop)]
        if wait.write_line != wait.read_line:
            related.append(context.related(wait.read_line, f"{_names(wait.readers)} reads it"))
        related += [context.related(o.line, f"`{o.tensor}` is declared here") for o in others]
        yield from self.report(context, node, share, text, related=tuple(related))


class EnginesTakeTurns(_WaitingRule):
    """## What it does
    Finds work that makes engines wait for each other: an iteration that needs the one before and
    goes from engine to engine, or one large tile that each engine finishes before the next begins.

    ## Why
    Engines run side by side only on independent work. An engine that waits for a semaphore of
    another one idles meanwhile.

    ## Example
    ```python
    nisa.activation(dst=e, op=nl.exp, data=x)                    # [128, 16384]
    nisa.tensor_tensor(dst=y, data1=e, data2=x, op=nl.multiply)  # waits for all of e
    ```

    ## Use instead
    ```python
    for j in range(8):  # Vector works on one part while Scalar makes the next
        part = nl.ds(j * 2048, 2048)
        nisa.activation(dst=e[:, part], op=nl.exp, data=x[:, part])
        nisa.tensor_tensor(dst=y[:, part], data1=e[:, part], data2=x[:, part], op=nl.multiply)
    ```
    """

    code = "P03"
    name = "engines-take-turns"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        for wait, share in self.dependences(context):
            engines = tuple(dict.fromkeys((*wait.writers, *wait.readers)))
            if DMA in engines or wait.buffer is Buffer.PSUM:
                continue
            if wait.waiting is Waiting.CARRIED and len(engines) > 1:
                text = (
                    f"`{wait.tensor}` carries a value from iteration to iteration over "
                    f"{wait.variable} through {_names(engines)}, which take turns: "
                    f"{percent(share)} of the estimated time could overlap with independent work"
                )
                yield from self.about(context, wait, share, text)
        yield from _one_tile(self, context, dma=False)


class LoadThenCompute(_WaitingRule):
    """## What it does
    Finds transfers and computation that cannot overlap: one large tile that is loaded as a whole
    before work on it begins, or a single buffer that both use in turn.

    ## Why
    DMA engines work beside the compute engines. With one buffer the next load waits until the last
    tile was used.

    ## Example
    ```python
    nisa.dma_copy(dst=tile, src=x)  # 4 MiB
    nisa.activation(dst=out, op=nl.exp, data=tile)
    ```

    ## Use instead
    Load and compute in several parts, each in a tile of its own, so that one part is loaded while
    another is computed.
    """

    code = "P04"
    name = "load-then-compute"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        for wait, share in self.dependences(context):
            engines = tuple(dict.fromkeys((*wait.writers, *wait.readers)))
            if DMA not in engines or len(engines) < 2:
                continue
            single = wait.waiting is Waiting.REUSE and not _can_move_inside(context, wait)
            if single and context.machine.dialect is Dialect.CURRENT:
                text = (
                    f"`{wait.tensor}` is one buffer that {_names(engines)} use in turn in the loop "
                    f"over {wait.variable}: {percent(share)} of the estimated time cannot "
                    "overlap; use two buffers in turn"
                )
                yield from self.about(context, wait, share, text)
        yield from _one_tile(self, context, dma=True)


def _can_move_inside(context: Context, wait: Dependence) -> bool:
    return wait.movable and not context.machine.placed


def _one_tile(rule: SlowRule, context: Context, *, dma: bool) -> Iterator[Diagnostic]:
    """Two stages that hand over one tile in one piece, in code that runs once."""
    if context.facts is None:
        return
    least = LEAST_SERIAL * context.latency_ns
    for storage in context.machine.storages:
        uses = context.facts.uses.get(storage.id, [])
        if len(uses) < 2 or any(turning(use.record.loops) for use in uses):
            continue
        stages = _stages(uses, least)
        if stages is None:
            continue
        writer, reader = stages
        if (DMA in (writer.engine, reader.engine)) is not dma:
            continue
        share = min(writer.busy_ns, reader.busy_ns) / context.latency_ns
        first, second = _names((writer.engine,)), _names((reader.engine,))
        text = (
            f"{second} waits until {first} has filled all of `{storage.name}`: "
            f"{time_text(writer.busy_ns)}, then {time_text(reader.busy_ns)}; in several parts both "
            "would work at once"
        )
        related = (context.related(writer.record.line, f"{first} fills it here"),)
        yield from rule.report(context, reader.record.node, share, text, related=related)


def _stages(uses: list[Use], least: float) -> tuple[Use, Use] | None:
    """The first whole write and the first whole read by another engine that both take long."""
    writer = next((u for u in uses if u.written and not u.read), None)
    if writer is None or writer.busy_ns < least or not writer.view.is_whole:
        return None
    for use in uses:
        if use.read and use.engine != writer.engine and use.busy_ns >= least and use.view.is_whole:
            return writer, use
    return None


class TileOutsideLoop(_WaitingRule):
    """## What it does
    Finds tiles that are declared outside a loop in which each iteration fills them anew.

    ## Why
    Such a tile is one place in memory: an iteration cannot fill it before the one before has used
    it, so that iterations run one after another.

    ## Example
    ```python
    tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(32):
        nisa.dma_copy(dst=tile, src=x[i])
        ...
    ```

    ## Use instead
    ```python
    for i in range(32):
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i])
        ...
    ```
    """

    code = "P24"
    name = "tile-outside-loop"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        if context.machine.dialect is not Dialect.CURRENT:
            return
        loops: dict[tuple[int, str], list[tuple[Dependence, float]]] = defaultdict(list)
        for wait, share in self.dependences(context):
            if wait.buffer is Buffer.SBUF and _can_move_inside(context, wait):
                if share >= LEAST_SHARE:
                    loops[wait.loop_line, wait.variable].append((wait, share))
        for found in loops.values():
            wait, share = found[0]
            others = [other for other, _ in found[1:]]
            engines = tuple(dict.fromkeys((*wait.writers, *wait.readers)))
            text = (
                f"`{wait.tensor}` is filled anew in each iteration over {wait.variable} but "
                f"declared outside: {_names(engines)} take turns, {percent(share)} of the "
                "estimated time cannot overlap; declare it inside the loop"
            )
            if others:
                text += ", and so " + ", ".join(f"`{other.tensor}`" for other in others)
            yield from self.about(context, wait, share, text, others)


class OneBank(_WaitingRule):
    """## What it does
    Finds PSUM tiles that a loop fills and empties again and again.

    ## Why
    The Tensor Engine waits until the result was copied out of the bank. PSUM has 8 banks: with a
    tile of its own in each iteration, the next product goes into another bank meanwhile.

    ## Example
    ```python
    acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    for i in range(32):
        nisa.nc_matmul(dst=acc, stationary=a[i], moving=b[i])
        nisa.tensor_copy(dst=out[i], src=acc)
    ```

    ## Use instead
    ```python
    for i in range(32):
        acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        ...
    ```
    """

    code = "P14"
    name = "one-bank"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        banks = context.machine.target.integer("psum_banks")
        for wait, share in self.dependences(context):
            tensor = Engine.TENSOR.value in wait.writers
            if wait.buffer is not Buffer.PSUM or wait.waiting is not Waiting.REUSE or not tensor:
                continue
            text = (
                f"`{wait.tensor}` is one bank that the loop over {wait.variable} fills and empties "
                f"in turn: tensor waits for {_names(wait.readers)}, {percent(share)} of the "
                f"estimated time; {banks} banks are there: declare it inside the loop"
            )
            yield from self.about(context, wait, share, text)


class StaticRange(Rule):
    """## What it does
    Finds loops of the legacy dialect over `nl.static_range` with many iterations.

    ## Why
    `static_range` writes every iteration out: compiling takes longer, and the compiler can neither
    reorder iterations nor share buffers between them as it does with `affine_range`.

    ## Example
    ```python
    for i in nl.static_range(64):
        ...
    ```

    ## Use instead
    `nl.affine_range` where iterations do not depend on each other, else `nl.sequential_range`.
    """

    code = "P23"
    name = "static-range"
    severity = Severity.HINT
    MANY = 16

    def check(self, context: Context) -> Iterator[Diagnostic]:
        legacy = context.machine.dialect is Dialect.LEGACY
        if not legacy or "static_range" not in context.document.text:
            return
        node = function_node(context.document, context.kernel)
        trips = {loop.line: loop.trips for loop in context.workload.loops}
        aliases = context.machine.aliases
        for loop in ast.walk(node) if node is not None else ():
            if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
                continue
            name = aliases.canonical(ast.unparse(loop.iter.func))
            count = trips.get(loop.lineno)
            if name != "nl.static_range" or count is None or count < self.MANY:
                continue
            text = (
                f"static_range writes {count} iterations out one by one; affine_range lets the "
                "compiler loop and overlap them"
            )
            yield Diagnostic(self.code, self.severity, text, span_of(context.document, loop.iter))
