"""What the compiler does with a kernel, by dialect.

Legacy (``neuronxcc.nki``): the compiler merges repeated loads, chooses buffers and reorders
instructions. Current (``nki``): what is written is what runs.
"""

from __future__ import annotations

from attrs import frozen

from accelopt_lsp.nki.dialects import Dialect


@frozen(slots=True)
class Policy:
    """Rules of one dialect.

    Attributes:
        merges: equal loads and equal work on them are done once (:mod:`merging`).
        uses_psum: tiles may move to idle PSUM banks (:mod:`placement`).
        streams: a loaded tensor that takes most of a full SBUF is loaded at each use
            (:mod:`streaming`).
        buffering: an allocation site owns this many times its live peak in places, which its
            tiles rotate over: 2 is double buffering, as the idle Vector time of the measured
            silu kernel shows. 0: every tensor has a place of its own while SBUF has room.
        least_bytes: places of a site add up to at least this many bytes per partition, so
            that small tiles are loaded further ahead.
        window: instructions may issue at most this far, in program order over all engines,
            ahead of the oldest that has not; 0 keeps every engine strictly in order.
        spare_bytes: bytes per partition that stay free for running ahead when tiles are
            evicted.
    """

    merges: bool
    uses_psum: bool
    streams: bool
    buffering: int
    least_bytes: int
    window: int
    spare_bytes: int = 16384


POLICIES = {
    Dialect.LEGACY: Policy(
        merges=True, uses_psum=True, streams=True, buffering=2, least_bytes=8192, window=16
    ),
    Dialect.CURRENT: Policy(
        merges=False, uses_psum=False, streams=False, buffering=0, least_bytes=0, window=0
    ),
}
