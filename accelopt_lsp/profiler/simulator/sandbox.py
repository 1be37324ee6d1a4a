"""The fence around kernel code: no network, no processes, no writes outside its scratch folder.

Layers, each best effort where the system lacks it: resource limits; a network namespace without
interfaces, no new privileges and Landlock (Linux); an audit hook on everything Python does.
What is absent: secrets (the parent starts the child with a bare environment), a way back
(hooks and limits cannot be lifted again), other users of the process (one job each).
"""

from __future__ import annotations

import contextlib
import os
import site
import sys
import sysconfig
from collections.abc import Callable
from importlib.util import cache_from_source
from types import FrameType
from typing import Any

from accelopt_lsp.profiler.simulator.errors import SandboxViolation
from accelopt_lsp.profiler.simulator.protocol import Access

PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MAX_FILE_BYTES = 16 << 30
INPUT_FILES = "input-"
"""How files with the values of tensor arguments begin."""

_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_FORBIDDEN_PREFIXES = (
    "socket.",
    "subprocess.",
    "ctypes.",
    "pty.",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "urllib.",
    "http.",
    "ftplib.",
    "smtplib.",
    "imaplib.",
    "poplib.",
    "nntplib.",
    "telnetlib.",
    "webbrowser.",
    "sqlite3.",
    "syslog.",
    "winreg.",
    "msvcrt.",
    "gc.",
)
_FORBIDDEN = frozenset(
    {
        "os.system",
        "os.fork",
        "os.forkpty",
        "os.kill",
        "os.killpg",
        "os.startfile",
        "resource.setrlimit",
        "resource.prlimit",
        "signal.pthread_kill",
        "sys.addaudithook",
        "sys.settrace",
        "sys.setprofile",
        "sys.monitoring.register_callback",
        "setopencodehook",
    }
)
_PATH_WRITES = frozenset(
    "os.chflags os.chmod os.chown os.lchown os.link os.mkdir os.mkfifo os.mknod os.remove "
    "os.rename os.rmdir os.setxattr os.removexattr os.symlink os.truncate os.utime "
    "shutil.move shutil.rmtree shutil.chown".split()
)
_PATH_READS = frozenset({"os.listdir", "os.scandir", "os.walk", "glob.glob"})
_FRAME_READS = frozenset({"tb_frame", "gi_frame", "cr_frame", "ag_frame"})


def apply(
    access: Access,
    protected: tuple[int, ...] = (),
    *,
    limits: bool = True,
    writable: tuple[str, ...] = (),
    reads: list[str] | None = None,
) -> None:
    """Raise the fence for the rest of this process's life.

    Args:
        access: what stays allowed.
        protected: descriptors that kernel code must not open by number.
        limits: also set resource limits.
        writable: folders that may be written besides the scratch folder.
        reads: takes the files that are opened from now on, those that may be written and Python's
            own left out.
    """
    writes = tuple(os.path.realpath(p) for p in (access.scratch, *writable))
    os.chdir(access.scratch)
    if limits:
        _limit_resources(access)
    readable = _readable(access)
    if sys.platform == "linux":
        from accelopt_lsp.profiler.simulator import confinement

        confinement.confine(readable, writes)
    _disarm_exits()
    hidden = frozenset(name for path in access.hidden for name in _as_opened(path))
    guard = _Guard(readable, writes, frozenset(protected), reads, hidden)
    sys.addaudithook(guard.hook())


def _as_opened(path: str) -> tuple[str, ...]:
    """A source file and what Python compiled it to."""
    real = os.path.realpath(path)
    try:
        return real, os.path.realpath(cache_from_source(real))
    except (NotImplementedError, ValueError):
        return (real,)


def _readable(access: Access) -> tuple[str, ...]:
    """Folders that stay readable: the project, Python's installation, what the user adds."""
    found = [access.project, *access.read_paths, access.scratch, PACKAGE_FOLDER]
    found += [sys.prefix, sys.base_prefix, sys.exec_prefix]
    found += [p for p in sysconfig.get_paths().values() if p]
    with contextlib.suppress(AttributeError):
        found += site.getsitepackages()
        found.append(site.getusersitepackages())
    found += [p for p in sys.path if p]
    # An entry of sys.path such as / would let everything through.
    real = (os.path.realpath(path) for path in found)
    return tuple(dict.fromkeys(p for p in real if p != os.sep and os.path.exists(p)))


def _limit_resources(access: Access) -> None:
    try:
        import resource
    except ImportError:
        return
    seconds = int(access.seconds) + 30
    wanted = [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, seconds * max(os.cpu_count() or 1, 1)),
        (resource.RLIMIT_FSIZE, MAX_FILE_BYTES),
        (resource.RLIMIT_AS, access.memory_bytes),
    ]
    for what, value in wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (value, value))


def _disarm_exits() -> None:
    """``os._exit`` and ``os.abort`` would end the process without a report."""

    def refuse(*_: Any) -> None:
        raise SandboxViolation("kernel code may not end the process")

    for module in (os, sys.modules.get("posix")):
        if module is None:
            continue
        for name in ("_exit", "abort"):
            if hasattr(module, name):
                setattr(module, name, refuse)


class _Guard:
    """The audit hook's rules."""

    def __init__(
        self,
        readable: tuple[str, ...],
        writable: tuple[str, ...],
        protected: frozenset[int],
        reads: list[str] | None = None,
        hidden: frozenset[str] = frozenset(),
    ) -> None:
        self.reads = reads
        self.hidden = hidden
        self.known = tuple(
            os.path.realpath(p) for p in (PACKAGE_FOLDER, sysconfig.get_path("stdlib"))
        )
        self.installed = tuple(
            os.path.realpath(sysconfig.get_path(name)) for name in ("purelib", "platlib")
        )
        self.readable = readable
        self.writable = writable
        self.protected = protected
        self.trusted = tuple(
            os.path.realpath(p) + os.sep
            for p in {
                PACKAGE_FOLDER,
                sysconfig.get_path("stdlib"),
                sysconfig.get_path("purelib"),
                sysconfig.get_path("platlib"),
                # It may be installed elsewhere, and come by a .pth file.
                *getattr(sys.modules.get("numpy"), "__path__", ()),
            }
            if p
        )

    def hook(self) -> Callable[[str, tuple[Any, ...]], None]:
        """The function to install."""
        getframe = sys._getframe
        busy = [False]
        by_code: dict[int, bool] = {}
        codes: list[Any] = []

        def user_code(frame: FrameType | None) -> bool:
            """Whether a frame runs code of the user's."""
            if frame is None:
                return False
            code = frame.f_code
            known = by_code.get(id(code))
            if known is None:
                file = code.co_filename
                known = not file.startswith("<frozen") and not os.path.realpath(file).startswith(
                    self.trusted
                )
                by_code[id(code)] = known
                codes.append(code)
            return known

        def check_frames(what: str) -> None:
            if busy[0]:
                return
            busy[0] = True
            try:
                frame: FrameType | None = getframe(2)
                outside = user_code(frame)
                if (
                    not outside
                    and frame is not None
                    and frame.f_globals.get("__name__") in ("inspect", "traceback")
                ):
                    outside = user_code(frame.f_back)
            finally:
                busy[0] = False
            if outside:
                raise SandboxViolation(f"kernel code may not inspect frames ({what})")

        def check_stack(what: str) -> None:
            """Refuse what only the simulator does, and nothing that kernel code calls."""
            if busy[0]:
                return
            busy[0] = True
            try:
                frame: FrameType | None = getframe(2)
                while frame is not None and not user_code(frame):
                    frame = frame.f_back
            finally:
                busy[0] = False
            if frame is not None:
                raise SandboxViolation(f"kernel code may not read the files of its {what}")

        def audit(event: str, args: tuple[Any, ...]) -> None:
            if event == "sys._getframe":
                check_frames(event)
                return
            if event == "object.__getattr__":
                if args[1] in _FRAME_READS:
                    check_frames(str(args[1]))
                return
            if event == "open":
                if self.check_open(*args):
                    check_stack("inputs")
                return
            if event in _FORBIDDEN or event.startswith(_FORBIDDEN_PREFIXES):
                raise SandboxViolation(f"kernel code may not use {event}")
            if event in _PATH_WRITES:
                for value in args[:2]:
                    if isinstance(value, str | bytes | os.PathLike):
                        self.check_write(value)
            elif event in _PATH_READS:
                self.check_read(args[0] if args and args[0] is not None else ".")
            elif event == "sys._current_frames" or event == "sys._current_exceptions":
                check_frames(event)

        return audit

    def check_open(self, path: Any, mode: Any, flags: Any) -> bool:
        """One call of ``open`` or ``os.open``; whether it reads values of a tensor argument."""
        if isinstance(path, int):
            if path in self.protected:
                raise SandboxViolation("kernel code may not use this descriptor")
            return False
        writes = (isinstance(mode, str) and any(c in mode for c in "wax+")) or (
            isinstance(flags, int) and bool(flags & _WRITE_FLAGS)
        )
        if writes:
            self.check_write(path)
            return False
        real = self.check_read(path)
        self.note_read(real)
        folder, name = os.path.split(real)
        return name.startswith(INPUT_FILES) and folder in self.writable

    def note_read(self, real: str) -> None:
        """Remember a file that the result depends on."""
        if self.reads is None or real.startswith("/dev/"):
            return
        if any(_within(real, folder) for folder in self.writable):
            return
        own = any(_within(real, folder) for folder in self.known)
        if not own or any(_within(real, folder) for folder in self.installed):
            self.reads.append(real)

    def check_write(self, path: Any) -> None:
        real = os.path.realpath(os.fsdecode(path))
        if real == os.devnull or any(_within(real, folder) for folder in self.writable):
            return
        raise SandboxViolation(f"kernel code may write to its scratch folder only, not to {real}")

    def check_read(self, path: Any) -> str:
        real = os.path.realpath(os.fsdecode(path))
        if real in self.hidden:
            raise SandboxViolation(
                f"kernel code may not read {os.path.basename(real)}, which its outputs are "
                "compared with"
            )
        if real in ("/dev/null", "/dev/urandom", "/dev/random"):
            return real
        if any(_within(real, folder) for folder in self.readable):
            return real
        raise SandboxViolation(
            f"kernel code may not read {real}; add its folder with --read if it needs it"
        )


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
