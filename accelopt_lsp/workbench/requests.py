"""How a caller names a kernel, and how the workbench finds it."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from pathlib import Path

from attrs import evolve, field, frozen

from accelopt_lsp.analysis.arguments import discover_arguments
from accelopt_lsp.analysis.kernels import KernelSource, find_kernels
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.analysis.workspace import Workspace
from accelopt_lsp.nki.arguments import ArgumentSpec, KernelArguments
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.files import is_file, resolved
from accelopt_lsp.workbench.settings import Settings, settings_for


class RequestError(ValueError):
    """A request that cannot be carried out: no such file or kernel, or arguments missing."""


@frozen(slots=True)
class KernelRequest:
    """One kernel, as a caller names it.

    Attributes:
        path: file that holds it.
        text: current text of the file; None reads it from disk.
        function: name or qualified name; None takes the only kernel of the file.
        arguments: SPECs that win over what the file says.
        target: target that wins over what the file and the settings say.
        reference: reference file that wins over the discovered one.
        grid: SPMD launch grid.
        settings: settings; None reads the project's.
    """

    path: Path
    text: str | None = None
    function: str | None = None
    arguments: Mapping[str, ArgumentSpec] = field(factory=dict)
    target: str | None = None
    reference: Path | None = None
    grid: tuple[int, ...] = ()
    settings: Settings | None = None


@frozen(slots=True)
class ResolvedKernel:
    """A kernel that was found, with everything needed to run it.

    Attributes:
        path, text: its file.
        source: where it stands in the text.
        arguments: complete arguments.
        target: target name.
        reference: reference file, if there is one.
        settings: settings in force.
    """

    path: Path
    text: str
    source: KernelSource
    arguments: KernelArguments
    target: str
    reference: Path | None
    settings: Settings

    @property
    def dialect(self) -> Dialect:
        return self.source.dialect


def default_target(dialect: Dialect) -> str:
    """trn1 for legacy kernels, trn2 for current ones."""
    return "trn1" if dialect is Dialect.LEGACY else "trn2"


def read_source(path: Path) -> str:
    """Text of a kernel file, with plain line ends and without a byte order mark.

    Raises:
        RequestError: it cannot be read as UTF-8 text.
    """
    try:
        return path.read_text("utf-8-sig")
    except FileNotFoundError:
        raise RequestError(f"no such file: {path}") from None
    except IsADirectoryError:
        raise RequestError(f"{path} is a folder; name a Python file in it") from None
    except UnicodeDecodeError:
        raise RequestError(f"{path} is not UTF-8 text") from None
    except OSError as error:
        raise RequestError(f"cannot read {path}: {error.strerror}") from None


def write_source(path: Path, text: str, *, like: Path, over: str | None = None) -> None:
    """Write a kernel file with the line ends and the byte order mark of the file ``like``.

    Args:
        over: the text that it takes the place of. A file that has another one by now is left alone.

    Raises:
        RequestError: it cannot be written, or has another text than ``over``.
    """
    if over is not None and read_source(path) not in (over, text):
        raise RequestError(
            f"{path} was changed meanwhile and is left alone; --out FILE writes elsewhere"
        )
    try:
        original = like.read_bytes() if like.is_file() else b""
        marked = original.startswith(codecs.BOM_UTF8)
        windows = original.count(b"\r\n") * 2 > original.count(b"\n")
        path.write_text(
            text,
            "utf-8-sig" if marked else "utf-8",
            newline="\r\n" if windows else "\n",
        )
    except OSError as error:
        raise RequestError(f"cannot write {path}: {error.strerror}") from None


def resolve_kernel(request: KernelRequest) -> ResolvedKernel:
    """Find the kernel, its arguments, its reference and its target.

    Raises:
        RequestError: the file or kernel does not exist, several kernels and none named, a
            parameter has no SPEC, or the reference does not exist.
        SettingsError: the project's settings cannot be used.
    """
    path = resolved(request.path)
    text = read_source(path) if request.text is None else request.text
    document = Document.parse(text)
    source = _select(find_kernels(document), request)
    settings = request.settings or settings_for(path)
    _check_names(source, request.arguments)
    arguments = discover_arguments(
        document, source, path=path, overrides=request.arguments, workspace=Workspace()
    )
    if request.grid:
        arguments = evolve(arguments, grid=request.grid)
    reference = _reference(request, arguments, path)
    if arguments.missing and reference is None:
        raise RequestError(_how_to_say(source, arguments.missing))
    target = request.target or arguments.target or settings.target or default_target(source.dialect)
    return ResolvedKernel(path, text, source, arguments, target, reference, settings)


def _how_to_say(source: KernelSource, missing: tuple[str, ...]) -> str:
    """Which arguments are missing, and how to give a tensor and a scalar."""
    tensor = f"{missing[0]}=bf16[128,512]"
    scalar = f"{missing[1]}=1.0" if len(missing) > 1 else ""
    options = f"--arg '{tensor}'" + (
        f" for a tensor, --arg {scalar} for a scalar" if scalar else ""
    )
    return (
        f"{source.qualname} needs {', '.join(missing)}; give {options}, or a comment above the "
        f"kernel: # accelopt: {tensor} {scalar}".rstrip()
    )


def _select(kernels: tuple[KernelSource, ...], request: KernelRequest) -> KernelSource:
    if not kernels:
        raise RequestError(f"{request.path} has no kernel (a function decorated with nki.jit)")
    if request.function is None:
        if len(kernels) == 1:
            return kernels[0]
        names = ", ".join(k.qualname for k in kernels)
        raise RequestError(
            f"{request.path} has {len(kernels)} kernels: {names}; name one as FILE::NAME"
        )
    for kernel in kernels:
        if request.function in (kernel.qualname, kernel.name):
            return kernel
    names = ", ".join(k.qualname for k in kernels)
    raise RequestError(f"{request.path} has no kernel {request.function!r}; it has {names}")


def _check_names(source: KernelSource, given: Mapping[str, ArgumentSpec]) -> None:
    known = [p.name for p in source.parameters]
    for name in given:
        if name not in known:
            raise RequestError(
                f"{source.qualname} has no parameter {name!r}; it has {', '.join(known) or 'none'}"
            )


def _reference(request: KernelRequest, arguments: KernelArguments, path: Path) -> Path | None:
    if request.reference is not None:
        found = resolved(request.reference)
    elif arguments.reference is not None:
        found = resolved(path.parent / arguments.reference)
    else:
        return None
    if not is_file(found):
        raise RequestError(f"no such reference file: {found}")
    return found
