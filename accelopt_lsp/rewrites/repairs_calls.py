"""Repairs of calls: parameters that were renamed, moved or removed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelopt_lsp.analysis.issue import UnknownArgument, lowering_value
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.tree import module_of
from accelopt_lsp.nki.apis import find_api
from accelopt_lsp.nki.dialects import BindError, Dialect
from accelopt_lsp.nki.lowering import LoweringError, lower
from accelopt_lsp.nki.operands import Buffer, OperandType
from accelopt_lsp.rewrites.base import NotApplicable
from accelopt_lsp.rewrites.migrate.observe import observe
from accelopt_lsp.rewrites.repairs import Place, mends
from accelopt_lsp.rewrites.source import Edit

_ENUMS = {"dge_mode": ("unknown", "swdge", "hwdge", "none"), "oob_mode": ("error", "skip")}


@mends("name-compute-arguments", "Name reduce_op and scales")
def name_compute_arguments(place: Place) -> Iterator[Edit]:
    call, source = place.call("nisa.dma_compute"), place.source
    if len(call.args) < 3:
        raise NotApplicable("scales is not given by position")
    scales = call.args[2]
    ones = isinstance(scales, ast.List | ast.Tuple) and all(
        isinstance(e, ast.Constant) and e.value == 1 for e in scales.elts
    )
    tail = "" if ones else f", scales={source.one_line(scales)}"
    if len(call.args) > 3:
        start, _ = source.span(scales)
        _, end = source.span(call.args[3])
        yield Edit(start, end, f"reduce_op={source.one_line(call.args[3])}{tail}")
        return
    start, end = source.span(scales)
    if not ones:
        yield Edit(start, end, f"scales={source.one_line(scales)}")
        return
    later = [source.span(k)[0] for k in call.keywords]
    yield Edit(start, min(later, default=end), "")


@mends("name-constant", "Use the object of that name")
def name_constant(place: Place) -> Iterator[Edit]:
    constant = place.of(ast.Constant)
    keyword = place.keyword()
    if keyword.arg in _ENUMS and isinstance(constant.value, int):
        members = _ENUMS[keyword.arg]
        if not 0 <= constant.value < len(members):
            raise NotApplicable(f"{keyword.arg} has no member {constant.value}")
        text = f"{place.module('nisa')}.{keyword.arg}.{members[constant.value]}"
    elif isinstance(constant.value, str) and constant.value.isidentifier():
        text = f"{place.module('nl')}.{constant.value}"
    else:
        raise NotApplicable("no name of a memory, a data type or an enum")
    yield place.source.replace(constant, text)


@mends("share-output", "Use nl.shared_hbm")
def share_output(place: Place) -> Iterator[Edit]:
    node = place.nodes[0]
    for node in place.nodes:
        if place.name(node) in ("nl.hbm", "nl.private_hbm"):
            yield place.source.replace(node, f"{place.module('nl')}.shared_hbm")
            return
    raise NotApplicable("no nl.hbm at this place")


@mends("name-dma-engine", "Use dma_engine=")
def name_dma_engine(place: Place) -> Iterator[Edit]:
    keyword = place.keyword()
    if not isinstance(keyword.value, ast.Constant):
        raise NotApplicable("whether GpSimd's engine is meant is only known when the kernel runs")
    member = "gpsimd_dma" if keyword.value.value else "dma"
    text = f"dma_engine={place.module('nisa')}.dma_engine.{member}"
    yield place.source.replace(keyword, text)


@mends("move-register", "Move from a register")
def move_register(place: Place) -> Iterator[Edit]:
    keyword = place.keyword()
    value = place.source.one_line(keyword.value)
    text = f"src={place.module('nisa')}.register_alloc({value})"
    yield place.source.replace(keyword, text)


@mends("name-last-axis", "Reduce the last axis")
def name_last_axis(place: Place) -> Iterator[Edit]:
    axis = place.parameters.get("axis")
    if not isinstance(axis, int):
        raise NotApplicable("the rank of the tile is not known")
    yield place.source.replace(place.keyword().value, str(axis))


@mends("rename-matmul-flag", "Use the present parameter")
def rename_matmul_flag(place: Place) -> Iterator[Edit]:
    call = place.call("nisa.nc_matmul")
    for keyword in call.keywords:
        if keyword.arg == "is_moving_zero":
            text = f"is_moving_onezero={place.source.one_line(keyword.value)}"
            yield place.source.replace(keyword, text)
            return
    raise NotApplicable("psumAccumulateFlag= has no counterpart; say accumulate=True or False")


@mends("type-mx-scale", "Use nl.float8_e8m0fnu")
def type_mx_scale(place: Place) -> Iterator[Edit]:
    yield place.source.replace(place.nodes[0], f"{place.module('nl')}.float8_e8m0fnu")


@mends("name-channels", "Name the channels")
def name_channels(place: Place) -> Iterator[Edit]:
    keyword = place.keyword()
    call = place.parents[id(keyword)]
    assert isinstance(call, ast.Call)
    if place.name(call.func).endswith("rank_id"):
        yield place.without(call, keyword)
        return
    if not isinstance(keyword.value, ast.Constant) or not isinstance(keyword.value.value, int):
        raise NotApplicable("how many channels there are is not written here")
    yield place.source.replace(keyword, f"channel_ids={list(range(keyword.value.value))}")


@mends("match-transpose-rank", "Give dst the rank of src")
def match_transpose_rank(place: Place) -> Iterator[Edit]:
    shape = place.parameters.get("shape")
    if not isinstance(shape, list | tuple):
        raise NotApplicable("the shape of src is not known")
    node = place.call("nisa.dma_transpose")
    dst = next((k.value for k in node.keywords if k.arg == "dst"), None)
    if dst is None and node.args:
        dst = node.args[0]
    if dst is None:
        raise NotApplicable("dst is not given")
    sizes = ", ".join(map(str, shape))
    yield place.source.replace(dst, f"{place.source.of(dst)}.reshape(({sizes}))")


@mends("activate-rsqrt", "Use nisa.activation")
def activate_rsqrt(place: Place) -> Iterator[Edit]:
    call, statement = place.call("nl.rsqrt"), place.statement()
    if not isinstance(statement, ast.Assign) or statement.value is not call:
        raise NotApplicable("give the result of nl.rsqrt a name of its own first")
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or not call.args:
        raise NotApplicable("give the result of nl.rsqrt a name of its own first")
    source, nl = place.source, place.module("nl")
    data = source.one_line(call.args[0])
    given = next((k.value for k in call.keywords if k.arg == "dtype"), None)
    dtype = source.one_line(given) if given is not None else f"{data}.dtype"
    made = f"{target.id} = {nl}.ndarray({data}.shape, dtype={dtype}, buffer={nl}.sbuf)"
    yield place.above(statement, [made])
    text = f"{place.module('nisa')}.activation(dst={target.id}, op={nl}.rsqrt, data={data})"
    yield source.replace(statement, text)


@mends("copy-through-sbuf", "Copy to SBUF first")
def copy_through_sbuf(place: Place) -> Iterator[Edit]:
    call, statement = place.call("nisa.dma_copy"), place.statement()
    source, nl, nisa = place.source, place.module("nl"), place.module("nisa")
    src = next((k.value for k in call.keywords if k.arg == "src"), None)
    if src is None and len(call.args) > 1:
        src = call.args[1]
    if src is None:
        raise NotApplicable("src is not given")
    data = source.one_line(src)
    stem = src.id if isinstance(src, ast.Name) else "copied"
    name = place.fresh(f"{stem}_sbuf")
    yield place.above(
        statement,
        [
            f"{name} = {nl}.ndarray({data}.shape, dtype={data}.dtype, buffer={nl}.sbuf)",
            f"{nisa}.tensor_copy(dst={name}, src={data})",
        ],
    )
    yield source.replace(src, name)


@mends("remove-argument", "Remove the argument")
def remove_argument(place: Place) -> Iterator[Edit]:
    keyword = place.keyword()
    call = place.parents[id(keyword)]
    assert isinstance(call, ast.Call)
    yield place.without(call, keyword)


@mends("declare-dst", "Declare the tile that is written")
def declare_dst(place: Place) -> Iterator[Edit]:
    """``y = nisa.op(x)``: y is declared, and passed as ``dst``."""
    statement = place.statement()
    call = statement.value if isinstance(statement, ast.Assign | ast.Expr) else None
    if not isinstance(statement, ast.Assign) or not isinstance(call, ast.Call):
        raise NotApplicable("what the instruction should write is not named")
    target = statement.targets[0]
    source = place.source
    nl = place.module("nl")
    given = [source.span(a)[0] for a in (*call.args, *call.keywords)]
    if not given:
        raise NotApplicable("the instruction has no operands")
    at = min(given)
    positional = bool(call.args) or not call.keywords
    name = source.one_line(target)
    dst = name if positional else f"dst={name}"
    if isinstance(target, ast.Name):
        result = _result_of(place, call)
        used = any(isinstance(n, ast.Name) and n.id == target.id for n in ast.walk(call))
        if used:
            raise NotApplicable(f"{target.id} is read and written; give the result another name")
        memory = "psum" if result.buffer is Buffer.PSUM else "sbuf"
        sizes = ", ".join(map(str, result.shape))
        dtype = f"{nl}.{result.dtype.name}"
        made = f"{name} = {nl}.ndarray(({sizes}), dtype={dtype}, buffer={nl}.{memory})"
        yield place.above(statement, [made])
    elif not isinstance(target, ast.Subscript):
        raise NotApplicable("what the instruction should write is not named")
    yield Edit(source.span(statement)[0], source.span(call)[0], "")
    yield Edit(at, at, f"{dst}, ")


def _result_of(place: Place, call: ast.Call) -> OperandType:
    """What the instruction gave in the legacy dialect, where it returned its result.

    Raises:
        NotApplicable: it was another one there, or the shapes of its operands are not known.
    """
    context = place.context
    document = Document.parse(context.text)
    seen = observe(document, context.kernel, context.arguments, context.target)
    same = next(
        n
        for n in ast.walk(module_of(document))
        if isinstance(n, ast.Call)
        and (n.lineno, n.col_offset, n.end_col_offset)
        == (call.lineno, call.col_offset, call.end_col_offset)
    )
    name = place.name(call.func)
    api = find_api(name)
    signature = api.signature(Dialect.LEGACY) if api is not None else None
    if api is None or signature is None:
        raise NotApplicable(f"what {name} would return is not known")
    given = dict(zip(signature.parameters, same.args, strict=False))
    given |= {k.arg: k.value for k in same.keywords if k.arg is not None}
    try:
        values = {k: lowering_value(k, seen.value(v)) for k, v in given.items()}
        bound = api.bind(Dialect.LEGACY, (), values)
        result = lower(Dialect.LEGACY, name, bound, context.target).result
    except (UnknownArgument, BindError, LoweringError, ValueError, TypeError) as error:
        raise NotApplicable(f"the shape of the result is not known: {error}") from None
    if result is None:
        raise NotApplicable(f"{name} has no result")
    return result
