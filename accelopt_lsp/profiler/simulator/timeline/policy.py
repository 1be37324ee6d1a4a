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
        rotates: each allocation site owns a fixed number of buffers that its tiles rotate over;
            otherwise every tensor has a slot of its own as long as SBUF has room.
        window: instructions may issue at most this far, in program order over all engines,
            ahead of the oldest that has not; 0 keeps every engine strictly in order.
        extra_buffers, extra_bytes: a site owns max(extra_buffers, extra_bytes / tile bytes)
            buffers beyond its live peak. Source: idle Vector time in the measured NKIBench
            kernels silu and rope.
        spare_bytes: bytes per partition that stay free for running ahead when tiles are
            evicted: two times ``extra_bytes``.
        uses_psum: tiles may move to idle PSUM banks (:mod:`placement`).
    """

    merges: bool
    rotates: bool
    window: int
    extra_buffers: int = 2
    extra_bytes: int = 8192
    spare_bytes: int = 16384
    uses_psum: bool = False


POLICIES = {
    Dialect.LEGACY: Policy(merges=True, rotates=True, window=16, uses_psum=True),
    Dialect.CURRENT: Policy(merges=False, rotates=False, window=0),
}
