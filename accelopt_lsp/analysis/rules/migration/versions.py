"""What changed between versions of the current dialect: calls and their parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelopt_lsp.analysis.machine import Record
from accelopt_lsp.analysis.rules.base import Context
from accelopt_lsp.analysis.rules.migration.base import Place, VersionChange, at_least
from accelopt_lsp.analysis.rules.migration.scan import Scan, keyword
from accelopt_lsp.nki.diagnostics import Severity
from accelopt_lsp.nki.dialects import MEMORIES
from accelopt_lsp.nki.dtypes import find_dtype
from accelopt_lsp.nki.operands import Buffer

_ENUMS = {
    "dge_mode": ("unknown", "swdge", "hwdge", "none"),
    "oob_mode": ("error", "skip"),
}
_CREATION = ("nl.ndarray", "nl.zeros", "nl.ones", "nl.full", "nl.zeros_like", "nl.empty_like")


class ComputeOrder(VersionChange):
    """## What it does
    Finds `nisa.dma_compute(dst, srcs, scales, reduce_op)`.

    ## Why
    NKI 0.3 swapped the last two parameters; `scales` has a default since.

    ## Example
    ```python
    nisa.dma_compute(total, [a, b], [1.0, 1.0], nl.add)
    ```

    ## Use instead
    ```python
    nisa.dma_compute(dst=total, srcs=[a, b], reduce_op=nl.add)
    ```
    """

    code = "M15"
    name = "compute-order"
    until = "0.2"
    rewrite = "name-compute-arguments"
    title = "Name reduce_op and scales"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for call in scan.calls_of("nisa.dma_compute"):
            if len(call.args) > 2 and isinstance(call.args[2], ast.List | ast.Tuple):
                yield call, "reduce_op comes before scales since NKI 0.3"


class StringsAndIntegers(VersionChange):
    """## What it does
    Finds memories named by strings and enums given as integers.

    ## Why
    Since NKI 0.3 only the objects of `nki.language` and the members of `nki.isa`'s enums are
    accepted.

    ## Example
    ```python
    t = nl.ndarray((128, 512), dtype=nl.float32, buffer="sbuf")
    nisa.dma_copy(dst=t, src=x, dge_mode=2)
    ```

    ## Use instead
    ```python
    t = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x, dge_mode=nisa.dge_mode.hwdge)
    ```
    """

    code = "M24"
    name = "strings-and-integers"
    until = "0.2"
    rewrite = "name-constant"
    title = "Use the object of that name"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for call in scan.calls_of(*_CREATION):
            given = keyword(call, "buffer")
            memory = given.value if isinstance(given, ast.Constant) else None
            if given is not None and isinstance(memory, str) and memory in MEMORIES:
                yield given, f"a memory is nl.{memory}, not a string, since NKI 0.3"
            dtype = keyword(call, "dtype")
            if isinstance(dtype, ast.Constant) and isinstance(dtype.value, str):
                if find_dtype(dtype.value) is not None:
                    yield dtype, f"a data type is nl.{dtype.value}, not a string"
        for call in scan.calls_of("nisa.*"):
            for name, members in _ENUMS.items():
                given = keyword(call, name)
                if isinstance(given, ast.Constant) and type(given.value) is int:
                    if 0 <= given.value < len(members):
                        member = members[given.value]
                        yield given, f"{name} is nisa.{name}.{member}, no integer, since NKI 0.3"


class OutputInHbm(VersionChange):
    """## What it does
    Finds returned tensors with `buffer=nl.hbm`.

    ## Why
    Since NKI 0.3 outputs must be in `nl.shared_hbm`; others do not compile.

    ## Example
    ```python
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.hbm)
    ...
    return out
    ```

    ## Use instead
    ```python
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    ```
    """

    code = "M25"
    name = "output-in-hbm"
    until = "0.2"
    rewrite = "share-output"
    title = "Use nl.shared_hbm"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        seen: set[int] = set()
        for view in context.machine.outputs:
            node = view.storage.node
            if view.buffer is not Buffer.HBM or not isinstance(node, ast.Call) or id(node) in seen:
                continue
            seen.add(id(node))
            for name, reference in scan.names:
                if name in ("nl.hbm", "nl.private_hbm") and _inside(reference, node):
                    yield reference, "outputs are in nl.shared_hbm since NKI 0.3"


def _reduced(context: Context, axis: ast.AST) -> Record | None:
    """The reduction that has this axis argument."""
    for record in context.machine.records:
        if isinstance(record.node, ast.Call) and keyword(record.node, "axis") is axis:
            return record
    return None


def _ranks(context: Context, call: ast.Call) -> set[int]:
    """More than two, where lowering refused the axis of a call."""
    refused = any(f.code == "R068" and f.node is call for f in context.machine.findings)
    return {3} if refused else set()


def _inside(node: ast.AST, call: ast.Call) -> bool:
    return any(child is node for child in ast.walk(call))


class SendReceiveEngine(VersionChange):
    """## What it does
    Finds `nisa.sendrecv(use_gpsimd_dma=...)`.

    ## Why
    NKI 0.3 replaced the flag by the enum `nisa.dma_engine`.

    ## Example
    ```python
    nisa.sendrecv(src=x, dst=y, send_to_rank=1, recv_from_rank=1, pipe_id=0, use_gpsimd_dma=True)
    ```

    ## Use instead
    ```python
    nisa.sendrecv(src=x, dst=y, send_to_rank=1, recv_from_rank=1, pipe_id=0,
                  dma_engine=nisa.dma_engine.gpsimd_dma)
    ```
    """

    code = "M26"
    name = "send-receive-engine"
    until = "0.2"
    rewrite = "name-dma-engine"
    title = "Use dma_engine="

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for call in scan.calls_of("nisa.sendrecv"):
            given = keyword(call, "use_gpsimd_dma")
            if given is not None:
                yield given, "use_gpsimd_dma= is dma_engine=nisa.dma_engine... since NKI 0.3"


class RegisterImmediate(VersionChange):
    """## What it does
    Finds `nisa.register_move(dst, imm=...)`.

    ## Why
    Since NKI 0.3 the parameter is `src`, a register; a number is put into one by
    `nisa.register_alloc`.

    ## Example
    ```python
    nisa.register_move(count, imm=8)
    ```

    ## Use instead
    ```python
    nisa.register_move(count, src=nisa.register_alloc(8))
    ```
    """

    code = "M27"
    name = "register-immediate"
    until = "0.2"
    rewrite = "move-register"
    title = "Move from a register"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for call in scan.calls_of("nisa.register_move"):
            given = keyword(call, "imm")
            if given is not None:
                yield given, "imm= is src=, a register, since NKI 0.3"


class AxisOfReduction(VersionChange):
    """## What it does
    Finds `nisa.tensor_reduce(axis=1)` of tiles with more than two dimensions, in files for NKI 0.2.

    ## Why
    NKI 0.2 took `axis=1` for the last dimension, whatever the rank; since NKI 0.3 it is
    dimension 1, which cannot be reduced alone. In files for later versions this is R068.

    ## Example
    ```python
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile_3d, axis=1)
    ```

    ## Use instead
    ```python
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile_3d, axis=2)
    ```
    """

    code = "M28"
    instead_of = "R068"
    name = "axis-of-reduction"
    until = "0.2"
    rewrite = "name-last-axis"
    title = "Reduce the last axis"

    def extra(self, context: Context, node: ast.AST) -> dict[str, object]:
        record = _reduced(context, node)
        data = record.views.get("data") if record is not None else None
        return {} if data is None else {"axis": len(data.shape) - 1}

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        if context.nki_version is None or self.level(context) is not self.severity:
            return
        for call in scan.calls_of("nisa.tensor_reduce"):
            axis = keyword(call, "axis")
            if not isinstance(axis, ast.Constant) or axis.value != 1:
                continue
            data = keyword(call, "data") or (call.args[2] if len(call.args) > 2 else None)
            ranks = {
                len(record.views["data"].shape)
                for record in context.machine.records
                if record.node is call and "data" in record.views
            } or _ranks(context, call)
            if data is not None and any(rank > 2 for rank in ranks):
                yield axis, "axis=1 is dimension 1 since NKI 0.3; name the last one"


class PythonForms(VersionChange):
    """## What it does
    Finds `is True`, `is False` and other identities, `*` in a kernel's parameters, and lists as
    default arguments.

    ## Why
    The compiler of NKI 0.3 does not know identity, keyword-only parameters, and lists as arguments
    of kernels. `is None` is left alone: it works on values that are known beforehand.

    ## Example
    ```python
    def kernel(x, *, axes=[1, 0], scaled=True):
        if scaled is True: ...
    ```

    ## Use instead
    ```python
    def kernel(x, axes=(1, 0), scaled=True):
        if scaled == True: ...
    ```
    """

    code = "M29"
    name = "python-forms"
    until = "0.2"
    rewrite = "plain-python"
    title = "Use the form that NKI compiles"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for node in scan.nodes:
            if isinstance(node, ast.Compare) and _identity(node):
                yield node, "is and is not are == and != since NKI 0.3"
        arguments = scan.kernel.args
        if arguments.kwonlyargs and arguments.vararg is None:
            yield (
                arguments.kwonlyargs[0],
                "* in a kernel's parameters is not compiled since NKI 0.3",
            )
        defaults = (*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None))
        for default in defaults:
            if isinstance(default, ast.List):
                yield default, "an argument of a kernel is a tuple, no list, since NKI 0.3"


def _identity(node: ast.Compare) -> bool:
    operands = [node.left, *node.comparators]
    if any(isinstance(o, ast.Constant) and o.value is None for o in operands):
        return False
    return any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops)


class MatmulFlags(VersionChange):
    """## What it does
    Finds `is_moving_zero` and `psumAccumulateFlag` of `nisa.nc_matmul`.

    ## Why
    Since NKI 0.2 the first is `is_moving_onezero`; the second is gone, `accumulate` says whether a
    product overwrites or adds.

    ## Example
    ```python
    nisa.nc_matmul(dst=total, stationary=x, moving=y, is_moving_zero=True)
    ```

    ## Use instead
    ```python
    nisa.nc_matmul(dst=total, stationary=x, moving=y, is_moving_onezero=True)
    ```
    """

    code = "M31"
    instead_of = "R101"
    name = "matmul-flags"
    rewrite = "rename-matmul-flag"
    title = "Use the present parameter"

    def level(self, context: Context) -> Severity:
        return Severity.WARNING

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for call in scan.calls_of("nisa.nc_matmul"):
            renamed, gone = keyword(call, "is_moving_zero"), keyword(call, "psumAccumulateFlag")
            if renamed is not None:
                yield call, "is_moving_zero= is is_moving_onezero="
            if gone is not None:
                yield call, "psumAccumulateFlag= is gone; accumulate= says what it said"


class TransposeRank(VersionChange):
    """## What it does
    Finds `nisa.dma_transpose` into a tensor of lower rank than its source, in files for versions up
    to NKI 0.3.

    ## Why
    The shape was padded silently; since NKI 0.4 it must be the permuted shape of the source. In
    files for later versions this is R065.

    ## Example
    ```python
    nisa.dma_transpose(dst=y[0:128, 0:4096], src=x_4d, axes=(3, 1, 2, 0))
    ```

    ## Use instead
    ```python
    nisa.dma_transpose(dst=y.reshape((128, 1, 1, 4096)), src=x_4d, axes=(3, 1, 2, 0))
    ```
    """

    code = "M34"
    instead_of = "R065"
    name = "transpose-rank"
    until = "0.3"
    rewrite = "match-transpose-rank"
    title = "Give dst the rank of src"

    def extra(self, context: Context, node: ast.AST) -> dict[str, object]:
        for record in context.machine.records:
            if record.nodes.get("dst") is not node and record.node is not node:
                continue
            src = record.views.get("src")
            axes = keyword(record.node, "axes") if isinstance(record.node, ast.Call) else None
            if src is not None and isinstance(axes, ast.Tuple | ast.List):
                values = [e.value for e in axes.elts if isinstance(e, ast.Constant)]
                order = [v for v in values if isinstance(v, int)]
                if len(order) == len(src.shape):
                    return {"shape": [src.shape[a] for a in order]}
        return {}

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        if context.nki_version is None or self.level(context) is not self.severity:
            return
        for record in context.machine.records:
            if not any(v.code == "R065" for v in record.lowered.violations):
                continue
            dst, src = record.views.get("dst"), record.views.get("src")
            if dst is not None and src is not None and len(dst.shape) < len(src.shape):
                node = record.nodes.get("dst", record.node)
                yield node, f"dst has rank {len(dst.shape)}, src has {len(src.shape)}"


class RsqrtOfPsum(VersionChange):
    """## What it does
    Finds `nl.rsqrt` of tiles in PSUM.

    ## Why
    Since NKI 0.5 it runs on GpSimd, which does not reach PSUM.

    ## Example
    ```python
    y = nl.rsqrt(total_in_psum)
    ```

    ## Use instead
    ```python
    y = nl.ndarray(total_in_psum.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=y, op=nl.rsqrt, data=total_in_psum)
    ```
    """

    code = "M37"
    instead_of = "R094"
    name = "rsqrt-of-psum"
    until = "0.4"
    rewrite = "activate-rsqrt"
    title = "Use nisa.activation"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for node in _reading_psum(context, scan, "nl.rsqrt", "x"):
            yield node, "nl.rsqrt does not read PSUM since NKI 0.5; nisa.activation does"


class CopyFromPsum(VersionChange):
    """## What it does
    Finds `nisa.dma_copy` out of PSUM, in files for NKI 0.2.

    ## Why
    Since NKI 0.3 the DMA engines do not read PSUM: an engine copies to SBUF first. In files for
    later versions this is a rejection.

    ## Example
    ```python
    nisa.dma_copy(dst=out, src=total_in_psum)
    ```

    ## Use instead
    ```python
    tile = nl.ndarray(total_in_psum.shape, dtype=total_in_psum.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=total_in_psum)
    nisa.dma_copy(dst=out, src=tile)
    ```
    """

    code = "M41"
    instead_of = "R034"
    name = "copy-from-psum"
    until = "0.2"
    rewrite = "copy-through-sbuf"
    title = "Copy to SBUF first"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        if context.nki_version is None or self.level(context) is not self.severity:
            return
        for node in _reading_psum(context, scan, "nisa.dma_copy", "src"):
            yield node, "DMA engines do not read PSUM since NKI 0.3"


def _reading_psum(context: Context, scan: Scan, name: str, slot: str) -> Iterator[ast.AST]:
    calls = {id(call) for call in scan.calls_of(name)}
    seen: set[int] = set()
    for record in context.machine.records:
        view = record.views.get(slot)
        if id(record.node) in calls and view is not None and view.buffer is Buffer.PSUM:
            if id(record.node) not in seen:
                seen.add(id(record.node))
                yield record.nodes.get(slot, record.node)


class ScaleOfMx(VersionChange):
    """## What it does
    Finds microscaling scales of type uint8 in NKI 0.5 and later.

    ## Why
    They are exponents; the type `float8_e8m0fnu` says so since NKI 0.5. uint8 still works.

    ## Example
    ```python
    scale = nl.ndarray((128, 64), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.quantize_mx(dst=packed, src=x, dst_scale=scale)
    ```

    ## Use instead
    ```python
    scale = nl.ndarray((128, 64), dtype=nl.float8_e8m0fnu, buffer=nl.sbuf)
    ```
    """

    code = "M36"
    name = "scale-of-mx"
    until = "0.4"
    error = False
    rewrite = "type-mx-scale"
    title = "Use nl.float8_e8m0fnu"
    safe = False

    def level(self, context: Context) -> Severity:
        return self.severity

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        if not at_least(context.nki_version, "0.5"):
            return
        seen: set[int] = set()
        for record in context.machine.records:
            for slot in ("dst_scale", "stationary_scale", "moving_scale"):
                view = record.views.get(slot)
                if view is None or view.dtype.name != "uint8":
                    continue
                node = view.storage.node
                if isinstance(node, ast.Call) and id(node) not in seen:
                    seen.add(id(node))
                    given = keyword(node, "dtype") or (node.args[1] if len(node.args) > 1 else node)
                    yield given, "scales are of type nl.float8_e8m0fnu since NKI 0.5"


class ChannelCount(VersionChange):
    """## What it does
    Finds `num_channels=` of collectives.

    ## Why
    NKI 0.3 removed it; channels are named, `channel_ids=[...]`, where a collective takes several.

    ## Example
    ```python
    collectives.collective_permute_implicit(srcs_by_channel=[[a], [b]], dsts_by_channel=[[c], [d]],
                                            replica_group=group, num_channels=2)
    ```

    ## Use instead
    ```python
    collectives.collective_permute_implicit(srcs_by_channel=[[a], [b]], dsts_by_channel=[[c], [d]],
                                            replica_group=group, channel_ids=[0, 1])
    ```
    """

    code = "M42"
    name = "channel-count"
    until = "0.2"
    rewrite = "name-channels"
    title = "Name the channels"

    def places(self, context: Context, scan: Scan) -> Iterator[Place]:
        for name, call in scan.calls:
            given = keyword(call, "num_channels")
            if given is not None and name.startswith("nki.collectives."):
                yield given, "num_channels= is gone since NKI 0.3; channel_ids= names them"
