"""Builds traces without the simulator's front end: tiles with addresses, calls lowered."""

from __future__ import annotations

from typing import Any

from attrs import define, evolve, field, frozen

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.dtypes import BFLOAT16, FLOAT32, DType
from accelopt_lsp.nki.lowering import RESULT, Lowered, lower, retarget
from accelopt_lsp.nki.operands import Buffer, OperandType
from accelopt_lsp.nki.targets import Target, get_target
from accelopt_lsp.profiler.simulator.trace import Region, Storage, Template, Trace

TRN1, TRN2 = get_target("trn1"), get_target("trn2")
_SITE = 1_000_000


@frozen
class Tile:
    """A view of a storage: descriptor, and where it starts."""

    storage: int
    type: OperandType
    partition: int = 0
    byte: int = 0

    @property
    def region(self) -> Region:
        kind = self.type
        rows = kind.partitions
        return (
            self.storage,
            self.partition,
            self.partition + rows,
            self.byte,
            self.byte + kind.free_bytes,
        )

    def columns(self, start: int, stop: int) -> Tile:
        """Part of the free axis of a two-dimensional tile."""
        shape = (self.type.shape[0], stop - start)
        strides = (self.type.layout[0], 1)
        return evolve(
            self,
            type=evolve(self.type, shape=shape, strides=strides),
            byte=self.byte + start * self.type.dtype.nbytes,
        )

    def rows(self, start: int, stop: int) -> Tile:
        """Part of the rows of an HBM tensor."""
        shape = (stop - start, *self.type.shape[1:])
        return evolve(
            self,
            type=evolve(self.type, shape=shape, strides=self.type.layout),
            partition=self.partition + start,
        )


@define
class Builder:
    """Writes a trace."""

    dialect: Dialect = Dialect.LEGACY
    target: Target = TRN1
    trace: Trace = field(init=False)
    _templates: dict[Template, int] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.trace = Trace(self.dialect)

    def tensor(
        self,
        shape: tuple[int, ...],
        dtype: DType = FLOAT32,
        buffer: Buffer = Buffer.SBUF,
        *,
        site: int = 0,
        external: bool = False,
    ) -> Tile:
        kind = OperandType(shape, dtype, buffer)
        number = len(self.trace.storages)
        self.trace.storages.append(
            Storage(
                id=number,
                name=f"t{number}",
                buffer=buffer,
                partition_bytes=kind.free_bytes,
                partitions=kind.partitions,
                line=site,
                site=site,
                born=len(self.trace),
                external=external,
                loop_depth=1,
            )
        )
        return Tile(number, kind)

    def hbm(self, shape: tuple[int, ...], dtype: DType = FLOAT32) -> Tile:
        return self.tensor(shape, dtype, Buffer.HBM, external=True)

    def call(
        self,
        line: int,
        api: str,
        *,
        into: Tile | None = None,
        accumulates: bool = False,
        **values: Any,
    ) -> Tile | None:
        """Record one call; ``into`` is what it writes (a fresh tile if left out)."""
        tiles = {k: v for k, v in values.items() if isinstance(v, Tile)}
        given = {k: v.type if isinstance(v, Tile) else v for k, v in values.items()}
        lowered = lower(self.dialect, api, given, self.target)
        if into is not None and lowered.result is not None:
            lowered = retarget(lowered, into.type)
        places = dict(tiles)
        if lowered.result is not None:
            places[RESULT] = into or self.tensor(
                lowered.result.shape, lowered.result.dtype, lowered.result.buffer, site=line
            )
        self._record(line, lowered, places, accumulates)
        return places.get(RESULT)

    def _record(
        self, line: int, lowered: Lowered, places: dict[str, Tile], accumulates: bool
    ) -> None:
        for issue in lowered.issues:
            regions = []
            for _, slot in issue.operands:
                if slot not in places:
                    kind = lowered.types[slot]
                    places[slot] = self.tensor(
                        kind.shape, kind.dtype, kind.buffer, site=_SITE + line * 10 + len(places)
                    )
                regions.append(places[slot].region)
            template = Template(issue, line, accumulates)
            code = self._templates.setdefault(template, len(self._templates))
            if code == len(self.trace.templates):
                self.trace.templates.append(template)
            self.trace.records.append((code, tuple(regions)))


def tiled_matmul(
    m: int,
    k: int,
    n: int,
    dtype: DType = BFLOAT16,
    *,
    dialect: Dialect = Dialect.LEGACY,
    target: Target = TRN1,
    blocked: bool = False,
) -> Trace:
    """lhsT[k, m].T @ rhs[k, n], tiles of 128 x 128 x 512.

    Naive: both tiles are loaded inside the innermost loop. Blocked: 16 x 2 output tiles a
    block, the left columns of a block loaded once, the right ones once per block of columns.
    """
    b = Builder(dialect, target)
    lhs, rhs, out = b.hbm((k, m), dtype), b.hbm((k, n), dtype), b.hbm((m, n), dtype)
    if blocked:
        _blocked(b, lhs, rhs, out, (m, k, n), dtype)
    else:
        for i in range(m // 128):
            for j in range(n // 512):
                psum = b.tensor((128, 512), FLOAT32, Buffer.PSUM, site=1)
                for step in range(k // 128):
                    rows = (step * 128, step * 128 + 128)
                    left = _load(b, 2, lhs.rows(*rows).columns(i * 128, i * 128 + 128))
                    right = _load(b, 3, rhs.rows(*rows).columns(j * 512, j * 512 + 512))
                    _multiply(b, 4, psum, left, right)
                _store(b, psum, out, i, j, dtype)
    return b.trace


def _load(b: Builder, line: int, source: Tile) -> Tile:
    tile = b.tensor(source.type.shape, source.type.dtype, site=line)
    if b.dialect is Dialect.LEGACY:
        b.call(line, "nl.load", into=tile, src=source)
    else:
        b.call(line, "nisa.dma_copy", dst=tile, src=source)
    return tile


def _multiply(b: Builder, line: int, psum: Tile, left: Tile, right: Tile) -> None:
    if b.dialect is Dialect.LEGACY:
        b.call(line, "nisa.nc_matmul", into=psum, accumulates=True, stationary=left, moving=right)
    else:
        b.call(line, "nisa.nc_matmul", accumulates=True, dst=psum, stationary=left, moving=right)


def _store(b: Builder, psum: Tile, out: Tile, i: int, j: int, dtype: DType) -> None:
    tile = b.tensor((128, 512), dtype, site=5)
    target = out.rows(i * 128, i * 128 + 128).columns(j * 512, j * 512 + 512)
    if b.dialect is Dialect.LEGACY:
        b.call(5, "nl.copy", into=tile, src=psum)
        b.call(6, "nl.store", dst=target, value=tile)
    else:
        b.call(5, "nisa.tensor_copy", dst=tile, src=psum)
        b.call(6, "nisa.dma_copy", dst=target, src=tile)


def _blocked(
    b: Builder, lhs: Tile, rhs: Tile, out: Tile, size: tuple[int, int, int], dtype: DType
) -> None:
    m, k, n = size
    wide = min(n, 1024)
    for block in range(n // wide):
        right = [
            _load(
                b,
                3,
                rhs.rows(s * 128, s * 128 + 128).columns(block * wide, block * wide + wide),
            )
            for s in range(k // 128)
        ]
        tall = min(m, 1024)
        for part in range(m // tall):
            left = [
                _load(
                    b,
                    2,
                    lhs.rows(s * 128, s * 128 + 128).columns(part * tall, part * tall + tall),
                )
                for s in range(k // 128)
            ]
            for i in range(tall // 128):
                for j in range(wide // 512):
                    psum = b.tensor((128, 512), FLOAT32, Buffer.PSUM, site=1)
                    for step in range(k // 128):
                        _multiply(
                            b,
                            4,
                            psum,
                            left[step].columns(i * 128, i * 128 + 128),
                            right[step].columns(j * 512, j * 512 + 512),
                        )
                    _store(
                        b,
                        psum,
                        out,
                        part * (tall // 128) + i,
                        block * (wide // 512) + j,
                        dtype,
                    )


def silu(rows: int, columns: int, width: int = 1024, *, chain: bool = True) -> Trace:
    """x / (1 + exp(-x)) over tiles of 128 rows; without ``chain`` the steps are independent."""
    b = Builder()
    x, out = b.hbm((rows, columns)), b.hbm((rows, columns))
    for i in range(rows // 128):
        for j in range(columns // width):
            where = (i * 128, i * 128 + 128), (j * width, j * width + width)
            tile = _load(b, 1, x.rows(*where[0]).columns(*where[1]))
            result = b.tensor((128, width), site=6)
            for part in range(width // 512):
                piece = tile.columns(part * 512, part * 512 + 512)
                e = b.call(2, "nl.exp", x=piece)
                d = b.call(3, "nl.add", x=e if chain else piece, y=1.0)
                r = b.call(4, "nl.reciprocal", x=d if chain else piece)
                b.call(
                    5,
                    "nl.multiply",
                    into=result.columns(part * 512, part * 512 + 512),
                    x=piece,
                    y=r if chain else piece,
                )
            b.call(7, "nl.store", dst=out.rows(*where[0]).columns(*where[1]), value=result)
    return b.trace


def rmsnorm(rows: int, columns: int) -> Trace:
    """x / sqrt(mean(x^2)) with one row tile at a time."""
    b = Builder()
    x, out = b.hbm((rows, columns)), b.hbm((rows, columns))
    for i in range(rows // 128):
        tile = _load(b, 1, x.rows(i * 128, i * 128 + 128))
        square = b.call(2, "nl.square", x=tile)
        mean = b.call(3, "nl.mean", x=square, axis=(1,), keepdims=True)
        root = b.call(4, "nl.rsqrt", x=mean)
        result = b.call(5, "nl.multiply", x=tile, y=root)
        b.call(6, "nl.store", dst=out.rows(i * 128, i * 128 + 128), value=result)
    return b.trace
