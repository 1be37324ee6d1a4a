"""When storages are alive in program order, and how much room they need."""

from __future__ import annotations

from itertools import accumulate

from attrs import frozen

from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.nki.targets import Target
from accelopt_lsp.profiler.simulator.timeline.stream import Stream
from accelopt_lsp.profiler.simulator.trace import Storage


@frozen(slots=True)
class Lifetimes:
    """First and last access of every storage, as instruction indices; -1 if never used."""

    first: list[int]
    last: list[int]

    @property
    def size(self) -> int:
        """Number of storages."""
        return len(self.first)


def lifetimes(stream: Stream) -> Lifetimes:
    """First and last access of every storage."""
    count = len(stream.storages)
    first, last = [-1] * count, [-1] * count
    for index, regions in enumerate(stream.regions):
        for region in regions:
            storage = region[0]
            last[storage] = index
            if first[storage] < 0:
                first[storage] = index
    return Lifetimes(first, last)


def sbuf_capacity(target: Target) -> int:
    """Bytes per partition that a kernel can use."""
    return target.integer("sbuf_partition_bytes") - target.integer("sbuf_reserved_bytes")


def sbuf_bytes(storage: Storage) -> int:
    """Room that a tile takes, in bytes per partition of the whole SBUF.

    A tile of at most 32 partitions can start at four places, one of at most 64 at two, so
    that such tiles share the same byte range.
    """
    if storage.partitions <= 32:
        return -(-storage.partition_bytes // 4)
    if storage.partitions <= 64:
        return -(-storage.partition_bytes // 2)
    return storage.partition_bytes


def psum_bytes(storage: Storage, bank_bytes: int) -> int:
    """Room in PSUM: whole banks."""
    return max(1, -(-storage.partition_bytes // bank_bytes)) * bank_bytes


def live_peak(stream: Stream, lives: Lifetimes, buffer: Buffer) -> int:
    """Largest number of bytes per partition that are alive at once."""
    change = [0] * (len(stream) + 1)
    for storage in stream.storages:
        first = lives.first[storage.id]
        if first >= 0 and storage.buffer is buffer:
            size = sbuf_bytes(storage)
            change[first] += size
            change[lives.last[storage.id] + 1] -= size
    return max(accumulate(change), default=0)
