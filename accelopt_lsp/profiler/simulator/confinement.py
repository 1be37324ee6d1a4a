"""Confinement by the Linux kernel: no network namespace, no new privileges, Landlock.

Everything here is best effort: an old kernel, a container or missing rights leave the audit
hook as the only fence. Sources: prctl(2), unshare(2), landlock(7).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct

_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWNET = 0x40000000
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_LANDLOCK_RULE_PATH_BENEATH = 1
_O_PATH = 0o10000000
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_ALL_VERSION_1 = (1 << 13) - 1
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_SYSTEM_READS = (
    *("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime"),
    *("/dev", "/proc", "/sys"),
)


def confine(readable: tuple[str, ...], writable: tuple[str, ...]) -> None:
    """Apply what the system offers."""
    with contextlib.suppress(OSError, AttributeError, ValueError):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if libc.unshare(_CLONE_NEWNET) != 0:
            libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET)
        _landlock(libc, readable, writable)


def _landlock(libc: ctypes.CDLL, readable: tuple[str, ...], writable: tuple[str, ...]) -> None:
    version = libc.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return
    handled = _ALL_VERSION_1
    if version >= 2:
        handled |= _REFER
    if version >= 3:
        handled |= _TRUNCATE
    attribute = struct.pack("<Q", handled)
    ruleset = libc.syscall(
        _LANDLOCK_CREATE, attribute, ctypes.c_size_t(len(attribute)), ctypes.c_uint32(0)
    )
    if ruleset < 0:
        return
    try:
        reads = _READ_FILE | _READ_DIR | _EXECUTE
        for path in (*readable, *_SYSTEM_READS):
            _allow(libc, ruleset, path, reads)
        _allow(libc, ruleset, os.devnull, _READ_FILE | _WRITE_FILE)
        for path in writable:
            _allow(libc, ruleset, path, handled & ~_EXECUTE)
        libc.syscall(_LANDLOCK_RESTRICT, ruleset, ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    if not os.path.exists(path):
        return
    if not os.path.isdir(path):
        rights &= _READ_FILE | _WRITE_FILE | _EXECUTE | _TRUNCATE
    descriptor = os.open(path, _O_PATH | os.O_CLOEXEC)
    try:
        rule = struct.pack("<Qi", rights, descriptor)
        libc.syscall(_LANDLOCK_ADD, ruleset, _LANDLOCK_RULE_PATH_BENEATH, rule, ctypes.c_uint32(0))
    finally:
        os.close(descriptor)
