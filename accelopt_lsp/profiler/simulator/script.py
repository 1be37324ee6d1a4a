"""``accelopt run``: ordinary Python in which ``neuronxcc.nki`` and ``nki`` are the simulator."""

from __future__ import annotations

import os
import runpy
import shutil
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from accelopt_lsp.profiler.base import Limits
from accelopt_lsp.profiler.simulator.protocol import Access, project_of

_KEPT = ("PATH", "LANG", "LC_ALL", "TZ")
_KEPT_PREFIXES = ("NKI_", "NEURON_PLATFORM_")
"""Variables that a sandboxed script keeps: what Python needs, and NKI's own switches."""
_EXIT = os._exit
"""Kept from before the sandbox takes it away from the script."""


def run_script(
    script: str,
    argv: Sequence[str] = (),
    module: bool = False,
    sandbox: bool = False,
    target: str | None = None,
    nki_version: str | None = None,
) -> int:
    """Run a script, or a module by name, as ``python`` would; gives its exit code.

    Args:
        script: path of a script, or a module's name with ``module``.
        argv: its arguments.
        module: ``script`` is a module's name.
        sandbox: let it write to a scratch folder only, and use no network and no processes.
        target: hardware generation of kernels; by default trn1 for legacy ones, else trn2.
        nki_version: NKI version in force; names that it lacks are rejected.
    """
    if not module and not os.path.isfile(script):
        print(f"accelopt run: no such script: {script}", file=sys.stderr)
        return 2
    path = Path.cwd() / "__main__.py" if module else Path(script).resolve()
    if not sandbox:
        return _run(script, argv, path, module, target, nki_version)
    scratch = tempfile.mkdtemp(prefix="accelopt-run-")
    # A process of its own: nobody inside the fence could remove the scratch folder.
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = _run(script, argv, path, module, target, nki_version, scratch)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            _EXIT(status)
    try:
        _, status = os.waitpid(child, 0)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return os.waitstatus_to_exitcode(status)


def _run(
    script: str,
    argv: Sequence[str],
    path: Path,
    module: bool,
    target: str | None,
    nki_version: str | None,
    scratch: str | None = None,
) -> int:
    from accelopt_lsp.profiler.simulator import elements, hook, kernels

    hook.install()
    kernels.DEFAULTS.target = target
    kernels.DEFAULTS.nki_version = nki_version
    if os.environ.get(elements.PRECISION_VARIABLE) == "0":
        elements.keep_precision()
    if scratch is not None:
        _enter_sandbox(path, scratch)
    before, first = sys.argv, sys.path[0] if sys.path else ""
    sys.argv = [script, *argv]
    sys.path.insert(0, "" if module else str(path.parent))
    try:
        if module:
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(str(path), run_name="__main__")
        return 0
    except SystemExit as leaving:
        if leaving.code is None or isinstance(leaving.code, int):
            return leaving.code or 0
        print(leaving.code, file=sys.stderr)
        return 1
    except ImportError as error:
        if module and error.name == script:
            print(f"accelopt run: no module named {script}", file=sys.stderr)
            return 2
        traceback.print_exc()
        return 1
    except Exception:
        _print_trace()
        return 1
    finally:
        sys.argv = before
        if sys.path and sys.path[0] != first:
            del sys.path[0]


def _enter_sandbox(path: Path, scratch: str) -> None:
    from accelopt_lsp.profiler.simulator import sandbox

    limits = Limits()
    for name in [n for n in os.environ if n not in _KEPT and not n.startswith(_KEPT_PREFIXES)]:
        del os.environ[name]
    os.environ.update(HOME=scratch, TMPDIR=scratch)
    tempfile.tempdir = scratch
    sys.dont_write_bytecode = True
    access = Access(
        scratch=scratch,
        project=str(project_of(path)),
        read_paths=(),
        seconds=24 * 3600.0,
        memory_bytes=limits.memory_bytes,
        instructions=limits.instructions,
    )
    sandbox.apply(access)


def _print_trace() -> None:
    """The traceback as Python prints it, without the frames of this module and runpy."""
    kind, error, tb = sys.exc_info()
    while tb is not None and tb.tb_frame.f_code.co_filename in (__file__, runpy.__file__):
        tb = tb.tb_next
    while tb is not None and tb.tb_frame.f_code.co_filename.startswith("<frozen runpy"):
        tb = tb.tb_next
    traceback.print_exception(kind, error, tb)
