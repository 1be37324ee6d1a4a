"""Which kernel is running in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accelopt_lsp.profiler.simulator.errors import KernelRejected

if TYPE_CHECKING:
    from accelopt_lsp.profiler.simulator.session import Session

_current: Session | None = None


def active() -> Session:
    """The session of the kernel that is running.

    Raises:
        KernelRejected: no kernel is running.
    """
    if _current is None:
        raise KernelRejected("NKI functions can only be called inside a kernel", "R022")
    return _current


def current() -> Session | None:
    return _current


def enter(session: Session | None) -> Session | None:
    """Make a session the current one; gives the one before."""
    global _current
    before, _current = _current, session
    return before
