"""Instructions of the Tensor Engine."""

from __future__ import annotations

from collections.abc import Iterator

from accelopt_lsp.nki.instructions.base import (
    DATA,
    DST,
    PSUM_ONLY,
    SBUF_ONLY,
    Attributes,
    Instruction,
    Operand,
    Operands,
)
from accelopt_lsp.nki.instructions.checks import psum_bank
from accelopt_lsp.nki.instructions.violations import Violation
from accelopt_lsp.nki.operands import Buffer, Engine, OperandType
from accelopt_lsp.nki.targets import Target

_FLOAT8 = frozenset({"float8_e4m3", "float8_e5m2", "float8_e4m3fn"})
_FLOATS = _FLOAT8 | {"bfloat16", "float16", "tfloat32", "float32"}


def rows_of(tile: OperandType, perf_mode: str | None) -> int:
    """Columns of one matmul operand: its free size, or half of it in double-row mode."""
    return tile.free // 2 if double_row(perf_mode) else tile.free


def double_row(perf_mode: str | None) -> bool:
    """Whether a mode packs two rows of the contraction (``double_row``, legacy ``.._gen3``)."""
    return bool(perf_mode) and str(perf_mode).startswith("double_row")


def _matmul(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    stationary, moving = operands["stationary"], operands["moving"]
    dst = operands.get("dst")
    mode = attrs.get("perf_mode")
    if stationary.partitions != moving.partitions:
        yield Violation(
            "R024",
            f"nc_matmul: stationary has {stationary.partitions} partitions (contraction), "
            f"moving has {moving.partitions}",
            "moving",
        )
    if mode is not None:
        yield from _performance_mode(stationary, moving, attrs, target)
    columns, free = rows_of(stationary, mode), rows_of(moving, mode)
    limit = target.integer("stationary_free_max")
    if columns > limit:
        yield Violation(
            "R026",
            f"nc_matmul: stationary free size {columns} exceeds {limit}; loop over pieces",
            "stationary",
        )
    limit = target.integer("moving_free_max")
    if target.generation >= 4 and dst is not None and dst.dtype.nbytes == 2:
        limit *= 2
    if free > limit:
        yield Violation(
            "R026",
            f"nc_matmul: moving free size {free} exceeds {limit}; loop over pieces",
            "moving",
        )
    yield from _matmul_types(stationary, moving, target)
    if attrs.get("tile_size") or attrs.get("tile_position"):
        yield from _tiling(stationary, columns, attrs, target)
    if dst is None:
        return
    if (dst.partitions, dst.free) != (columns, free):
        yield Violation(
            "R027",
            f"nc_matmul: dst is {list(dst.shape)}, stationary.T @ moving is [{columns}, {free}]",
            "dst",
        )
    yield from psum_bank(operands, attrs, target)
    yield from _matmul_result(dst, stationary, moving, attrs, target)


def _matmul_types(
    stationary: OperandType, moving: OperandType, target: Target
) -> Iterator[Violation]:
    names = {stationary.dtype.name, moving.dtype.name}
    for role, tile in (("stationary", stationary), ("moving", moving)):
        if tile.dtype.name not in _FLOATS:
            yield Violation(
                "R070",
                f"nc_matmul: {role} is {tile.dtype}; the Tensor Engine multiplies float types "
                "only, so cast it first",
                role,
            )
    if stationary.dtype.nbytes != moving.dtype.nbytes and 4 in (
        stationary.dtype.nbytes,
        moving.dtype.nbytes,
    ):
        yield Violation(
            "R070",
            f"nc_matmul: {stationary.dtype} with {moving.dtype}; float32 goes only with float32, "
            "so cast one of them",
            "moving",
        )
    if "float8_e4m3fn" in names and target.generation < 4:
        yield Violation(
            "R070",
            f"nc_matmul: float8_e4m3fn needs NeuronCore-v4, {target.name} is "
            f"NeuronCore-v{target.generation}; use float8_e4m3",
        )
    elif names >= {"float8_e4m3", "float8_e4m3fn"}:
        yield Violation("R070", "nc_matmul: float8_e4m3 does not go with float8_e4m3fn", "moving")


def _matmul_result(
    dst: OperandType,
    stationary: OperandType,
    moving: OperandType,
    attrs: Attributes,
    target: Target,
) -> Iterator[Violation]:
    name = dst.dtype.name
    if attrs.get("is_transpose") and target.generation >= 3:
        inputs = {stationary.dtype.name, moving.dtype.name}
        if name not in inputs and not (inputs <= _FLOAT8 and dst.dtype.nbytes == 2):
            yield Violation(
                "R070",
                f"nc_matmul: a transpose keeps the type of its input, dst is {dst.dtype} and the "
                f"input is {stationary.dtype}",
                "dst",
            )
    elif name != "float32" and not (target.generation >= 4 and name == "bfloat16"):
        wanted = "float32 or bfloat16" if target.generation >= 4 else "float32"
        yield Violation(
            "R070",
            f"nc_matmul: dst must be {wanted} on NeuronCore-v{target.generation}, it is "
            f"{dst.dtype}",
            "dst",
        )


def _performance_mode(
    stationary: OperandType, moving: OperandType, attrs: Attributes, target: Target
) -> Iterator[Violation]:
    mode = attrs["perf_mode"]
    if not double_row(mode):
        yield Violation("R101", f"nc_matmul: unknown perf_mode {mode!r}; known: none, double_row")
        return
    if target.generation < 3:
        yield Violation(
            "R072",
            f"nc_matmul: {mode} needs NeuronCore-v3 or later; {target.name} is "
            f"NeuronCore-v{target.generation}",
        )
    for role, tile in (("stationary", stationary), ("moving", moving)):
        if tile.dtype.name not in _FLOAT8:
            yield Violation(
                "R072", f"nc_matmul: {mode} needs 8-bit floats, {role} is {tile.dtype}", role
            )
        if len(tile.shape) < 3 or tile.shape[1] != 2:
            yield Violation(
                "R072",
                f"nc_matmul: in {mode} the first free dimension of {role} must be 2, its shape is "
                f"{list(tile.shape)}",
                role,
            )
    if attrs.get("is_transpose"):
        yield Violation("R072", f"nc_matmul: {mode} does not go with is_transpose")
    size = attrs.get("tile_size")
    if size and len(size) == 2 and isinstance(size[1], int) and size[1] < 128:
        yield Violation(
            "R072", f"nc_matmul: {mode} does not go with column tiling (tile_size {size})"
        )


def _tiling(
    stationary: OperandType, columns: int, attrs: Attributes, target: Target
) -> Iterator[Violation]:
    position, size = attrs.get("tile_position"), attrs.get("tile_size")
    if not position or not size:
        yield Violation("R101", "nc_matmul: tile_position and tile_size must be given together")
        return
    if len(position) != 2 or len(size) != 2:
        yield Violation("R101", "nc_matmul: tile_position and tile_size are (row, column) pairs")
        return
    smallest = 64 if target.generation < 3 else 32
    extents = (("row", stationary.partitions), ("column", columns))
    for (name, extent), start, length in zip(extents, position, size, strict=True):
        if not isinstance(start, int) or not isinstance(length, int):
            continue
        if length not in (32, 64, 128) or length < smallest:
            allowed = ", ".join(str(n) for n in (32, 64, 128) if n >= smallest)
            yield Violation(
                "R101",
                f"nc_matmul: tile_size has {length} {name}s, NeuronCore-v{target.generation} "
                f"allows {allowed}",
            )
        elif start % length or not 0 <= start < 128:
            yield Violation(
                "R101",
                f"nc_matmul: tile_position starts at {name} {start}; it must be a multiple of the "
                f"tile's {length} {name}s, below 128",
            )
        elif extent > length:
            yield Violation(
                "R026",
                f"nc_matmul: stationary has {extent} {name}s, more than the {length} of tile_size",
                "stationary",
            )


def _transpose(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    data, dst = operands["data"], operands.get("dst")
    engine = attrs.get("engine", Engine.TENSOR)
    if engine == Engine.TENSOR:
        for role, given, wanted in (("data", data, Buffer.SBUF), ("dst", dst, Buffer.PSUM)):
            if given is not None and given.buffer is not wanted:
                yield Violation(
                    "R034",
                    f"nc_transpose on the tensor engine: {role} must be in {wanted.upper()}, "
                    f"it is in {given.buffer.upper()}",
                    role,
                )
    limit = 32 if engine == Engine.VECTOR else 128
    if max(data.partitions, data.free) > limit:
        yield Violation(
            "R026",
            f"nc_transpose on the {engine} engine takes at most [{limit}, {limit}], "
            f"data is [{data.partitions}, {data.free}]",
            "data",
        )
    if dst is not None and (dst.partitions, dst.free) != (data.free, data.partitions):
        yield Violation(
            "R027",
            f"nc_transpose: dst is {list(dst.shape)}, data.T is [{data.free}, {data.partitions}]",
            "dst",
        )
    if (
        dst is not None
        and dst.dtype != data.dtype
        and not _transposes_into(engine, data, dst, target)
    ):
        yield Violation(
            "R070",
            f"nc_transpose: dst is {dst.dtype}, data is {data.dtype}; a transpose does not cast",
            "dst",
        )


def _transposes_into(engine: str, data: OperandType, dst: OperandType, target: Target) -> bool:
    """Types that a transpose may change: NeuronCore-v2 writes float32, fp8 becomes 16 bits wide."""
    if engine != Engine.TENSOR:
        return False
    if target.generation < 3:
        return dst.dtype.name == "float32"
    return data.dtype.name in _FLOAT8 and dst.dtype.nbytes == 2


INSTRUCTIONS = (
    Instruction(
        "nc_matmul",
        "Matrix product on the Tensor Engine, accumulated in fp32 in PSUM.",
        "dst[M,N] (+)= sum_k stationary[k,M] * moving[k,N]",
        (
            Operand("dst", PSUM_ONLY, written=True),
            Operand("stationary", SBUF_ONLY),
            Operand("moving", SBUF_ONLY),
        ),
        (Engine.TENSOR,),
        (
            "accumulate",
            "is_transpose",
            "perf_mode",
            "tile_position",
            "tile_size",
            "is_stationary_onezero",
            "is_moving_onezero",
        ),
        (
            "contraction K on partitions, at most 128",
            "stationary free size at most 128, moving at most 512 (trn3: 4096, 8192 for bfloat16)",
            "dst within one PSUM bank (2 KiB a partition), on trn3 within PSUM",
            "dst float32, on trn3 also bfloat16; a transpose keeps its input's type from trn2 on",
            "float types only; float32 only with float32, float8_e4m3 not with float8_e4m3fn",
            "double_row (trn2): 8-bit floats, first free dimension 2, no column tiling, no "
            "transpose",
            "tile_size 64 or 128 (trn2: 32) with tile_position a multiple of it",
        ),
        check=_matmul,
    ),
    Instruction(
        "nc_transpose",
        "Transposes a tile between partition and free axis.",
        "dst[f,p] = data[p,f]",
        (DST, DATA),
        (Engine.TENSOR, Engine.VECTOR),
        ("engine",),
        (
            "Tensor Engine: up to [128, 128], result in PSUM",
            "Vector Engine: up to [32, 32]",
            "dst has the type of data",
        ),
        check=_transpose,
    ),
)
