"""``python -m accelopt_lsp.profiler.simulator.child``: one job, read from standard input.

What a kernel prints never mixes with the answers: descriptors 0 to 2 lead nowhere while it
runs, and answers go through a private one.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

MAX_PRINTED = 64 << 10
"""Characters of a kernel's own output that are kept."""


class LimitedText(io.TextIOBase):
    """Standard output of kernel code: keeps the beginning, drops the rest."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.room = MAX_PRINTED

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self.room > 0 and isinstance(text, str):
            self.kept.append(text[: self.room])
            self.room -= len(text)
        return len(text)


def _private_channel() -> tuple[int, int]:
    """Move standard input and output away; errors go to a file until user code runs."""
    read_fd, write_fd = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    errors = os.open("stderr.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for source, descriptor in ((nothing, 0), (nothing, 1), (errors, 2)):
        os.dup2(source, descriptor)
    os.close(nothing)
    os.close(errors)
    sys.stdin = open(os.devnull)  # noqa: SIM115 - stays open for the process's life
    sys.stdout = LimitedText()
    return read_fd, write_fd


def _silence() -> None:
    """From now on user code runs: what it prints is kept in part, or dropped."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 2)
    os.close(nothing)
    sys.stderr = sys.stdout


class Watchdog:
    """Knows which line the kernel is at, and stops it when its time is up."""

    def __init__(self, channel: Any, main_file: str, seconds: float, alarm: Any) -> None:
        self.channel = channel
        self.main_file = main_file
        self.seconds = seconds
        self.rang = False
        self.done = False
        self._getframes = sys._current_frames
        self._main = threading.get_ident()
        self._kill = os._exit
        self._alarm = alarm

    def start(self) -> None:
        signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, self.seconds, 2.0)
        threading.Thread(target=self._watch, daemon=True).start()

    def stop(self) -> None:
        self.done = True
        signal.setitimer(signal.ITIMER_REAL, 0.0)

    def line(self, frame: FrameType | None) -> int | None:
        """Innermost line of the kernel's file in a stack."""
        while frame is not None:
            if frame.f_code.co_filename == self.main_file:
                return frame.f_lineno
            frame = frame.f_back
        return None

    def message(self, line: int | None) -> str:
        place = "" if line is None else f"; it was at line {line}"
        return f"the kernel did not end within {self.seconds:g} seconds{place}"

    def _ring(self, number: int, frame: FrameType | None) -> None:
        if self.done:
            return
        line = self.line(frame)
        if not self.rang:
            self.rang = True
            raise self._alarm(self.message(line))
        # It swallowed the first one: end here.
        self.channel.send(
            "failure",
            failure={
                "kind": "timeout",
                "message": self.message(line),
                "line": line,
                "column": None,
                "code": None,
                "trace": [],
            },
        )
        self._kill(3)

    def _watch(self) -> None:
        last: int | None = None
        while not self.done:
            time.sleep(0.5)
            with contextlib.suppress(Exception):
                line = self.line(self._getframes().get(self._main))
                if line is not None and line != last:
                    last = line
                    self.channel.send("at", line=line)


def main() -> int:
    """Run one job; always answers with a result or a failure, unless it is killed."""
    read_fd, write_fd = _private_channel()
    from accelopt_lsp.profiler.simulator.protocol import Channel, Role

    channel = Channel(read_fd, write_fd)
    role = Role(sys.argv[1]) if len(sys.argv) > 1 else Role.KERNEL
    if role is Role.JUDGE:
        from accelopt_lsp.profiler.simulator import judge  # noqa: F401 - loads while waiting

        message = channel.receive()
        return 0 if message is None else _judge(message, channel)
    from accelopt_lsp.profiler.simulator import errors, hook, runner, sandbox

    hook.install()
    message = channel.receive()
    if message is None:
        return 0
    channel.token = message["token"]
    from accelopt_lsp.profiler.simulator.protocol import kernel_task

    task = kernel_task(message)
    os.close(read_fd)
    watchdog = Watchdog(channel, task.path, task.access.seconds, errors.OutOfTime)
    finish: Callable[[int], int] = os._exit
    _dump_when_stuck(task.access.scratch, task.access.seconds + 4)
    _silence()
    sandbox.apply(task.access, (write_fd,), reads=channel.reads)
    work = runner.KernelRunner(task, channel)
    status = 0
    try:
        watchdog.start()
        work.run()
        watchdog.stop()
        channel.send("done", printed="".join(_printed())[:MAX_PRINTED])
    except BaseException as error:  # noqa: BLE001 - kernel code raises what it likes
        watchdog.stop()
        status = _report(error, work.sources, channel)
    # Nothing of the kernel's (exit handlers, threads, destructors) may run after the answer.
    return finish(status)


def _printed() -> list[str]:
    return sys.stdout.kept if isinstance(sys.stdout, LimitedText) else []


def _dump_when_stuck(scratch: str, seconds: float) -> None:
    """Write the stack to a file if even the alarm does not get through."""
    file = open(os.path.join(scratch, "stuck.txt"), "wb", buffering=0)  # noqa: SIM115
    faulthandler.dump_traceback_later(seconds, exit=True, file=file)
    faulthandler.enable(file=file)


def _judge(message: dict[str, Any], channel: Any) -> int:
    from attrs import evolve

    from accelopt_lsp.profiler.simulator import judge, sandbox
    from accelopt_lsp.profiler.simulator.protocol import judge_task
    from accelopt_lsp.profiler.simulator.source import Sources

    channel.token = message["token"]
    task = judge_task(message)
    sources = Sources(task.path, {task.path: task.source})
    extra = tuple(p for p in (task.cache,) if p)
    if task.reference is not None:
        extra = (*extra, os.path.dirname(os.path.realpath(task.reference)))
    access = evolve(task.access, read_paths=(*task.access.read_paths, *extra))
    if task.cache:
        os.makedirs(task.cache, exist_ok=True)
    _silence()
    sandbox.apply(access, writable=(task.cache,) if task.cache else (), reads=channel.reads)
    try:
        judge.Judge(task, channel).run()
        return 0
    except BaseException as error:  # noqa: BLE001 - references raise what they like
        return _report(error, sources, channel)


def _report(error: BaseException, sources: Any, channel: Any) -> int:
    from accelopt_lsp.profiler.simulator.explain import failure_of
    from accelopt_lsp.profiler.simulator.protocol import failure_to_dict

    try:
        channel.send("failure", failure=failure_to_dict(failure_of(error, sources)))
    except Exception:  # noqa: BLE001 - the parent is gone, or the kernel broke the interpreter
        return 2
    return 1


if __name__ == "__main__":
    sys.exit(main())
