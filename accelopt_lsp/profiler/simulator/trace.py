"""The instruction stream of one run: written by the dialect adapters, read by the timeline."""

from __future__ import annotations

from array import array
from hashlib import sha256

from attrs import define, field, frozen

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.lowering import Issue
from accelopt_lsp.nki.operands import Buffer

Region = tuple[int, int, int, int, int]
"""(storage id, first partition, end partition, first byte, end byte within a partition).

In HBM "partition" is the row (first dimension) and the bytes are those within a row: a
bounding box, which may be larger than what is touched but never smaller.
"""

Patterns = tuple[tuple[int, tuple[tuple[int, ...], tuple[int, ...]] | None], ...]
"""(position of an operand, its shape and strides)."""


@define(slots=True, unsafe_hash=True)
class Storage:
    """Memory that one tile (or one block of a tile with block dimensions) occupies.

    Attributes:
        id: index into :attr:`Trace.storages`.
        name: variable or parameter, for people.
        buffer: memory.
        partition_bytes: bytes per partition (per row in HBM).
        partitions: partitions (rows in HBM).
        line: source line that created it.
        site: allocations by the same call in different iterations or blocks share a site.
        born: index of the first instruction after its creation.
        external: a kernel input or output in HBM.
        pinned: (start partition, byte) chosen by the writer, if any.
        loop_depth: number of ``nl`` loops around the call that created it; Python's own
            ``range`` does not count, since the compiler only sees its iterations unrolled.
    """

    # Not frozen, which would make it three times as dear, and some kernels create a tile for
    # every instruction. Nothing changes it.

    id: int
    name: str
    buffer: Buffer
    partition_bytes: int
    partitions: int
    line: int
    site: int
    born: int
    external: bool = False
    pinned: tuple[int, int] | None = None
    loop_depth: int = 0


@frozen(slots=True)
class Template:
    """What records share: an issue and the line it stands on.

    Attributes:
        accumulates: the destination is also read (products added up in PSUM).
        patterns: which elements within their regions the operands are, for those that are not
            all of them in order: shape and strides, or None where no strides describe them.
            Empty if there are no such operands.
        types: data types of the operands; empty where nobody needs them.
    """

    issue: Issue
    line: int
    accumulates: bool = False
    patterns: Patterns = ()
    types: tuple[DType, ...] = ()


@define(slots=True)
class Trace:
    """All issued instructions of one run, in program order.

    ``records[i]`` is (template index, regions of the template's operands in order).

    Attributes:
        iterations: four numbers for every iteration of an ``nl`` loop, in the order in which
            they end: loops around it, value of the loop's variable, first record, end of the
            records.
    """

    dialect: Dialect
    templates: list[Template] = field(factory=list)
    storages: list[Storage] = field(factory=list)
    records: list[tuple[int, tuple[Region, ...]]] = field(factory=list)
    iterations: array[int] = field(factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.records)

    def digest(self) -> str:
        """Hash of what is issued: instructions, types, attributes, places and their order.

        Kernels that differ only in names, lines and the way in which they are written share it.
        Where no strides describe an operand, its place is a bounding box, so kernels that share it
        may still compute different values.
        """
        texts: dict[str, int] = {}
        codes = [
            texts.setdefault(repr((t.issue, t.accumulates, t.patterns)), len(texts))
            for t in self.templates
        ]
        numbers = array("q")
        for code, regions in self.records:
            numbers.append(codes[code])
            for region in regions:
                numbers.extend(region)
        for storage in self.storages:
            numbers.extend((storage.partition_bytes, storage.partitions, storage.born))
        found = sha256("\0".join((self.dialect, *texts)).encode())
        found.update(numbers.tobytes())
        return found.hexdigest()[:24]
