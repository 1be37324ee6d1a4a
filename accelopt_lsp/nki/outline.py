"""What stands where in a file: functions, loops, parts to fold, uses of buffers."""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen

from accelopt_lsp.nki.diagnostics import Span
from accelopt_lsp.nki.operands import Buffer


class EntryKind(StrEnum):
    """What an entry of an outline is."""

    KERNEL = "kernel"
    FUNCTION = "function"
    METHOD = "method"
    CLASS = "class"
    LOOP = "loop"


@frozen(slots=True)
class Entry:
    """A definition or a loop with what stands inside it.

    Attributes:
        name: of the definition; of a loop its head, such as ``for i in nl.affine_range(4)``.
        span: all of it, decorators included.
        name_span: what to put the cursor on.
    """

    name: str
    kind: EntryKind
    span: Span
    name_span: Span
    children: tuple[Entry, ...] = ()


class FoldKind(StrEnum):
    """What is folded, where editors tell it apart."""

    CODE = "code"
    COMMENT = "comment"
    IMPORTS = "imports"
    REGION = "region"


@frozen(slots=True, order=True)
class Fold:
    """Lines that may be folded into their first one.

    Attributes:
        start, end: first and last line, from 1; the first one stays visible.
    """

    start: int
    end: int
    kind: FoldKind = FoldKind.CODE


@frozen(slots=True)
class Outline:
    """What the tree of a file shows: definitions and loops, and parts to fold."""

    entries: tuple[Entry, ...] = ()
    folds: tuple[Fold, ...] = ()


@frozen(slots=True)
class BufferUse:
    """A name of a tensor whose memory is known.

    Attributes:
        line, column: from 1, in code points.
        declared: the tensor is created there.
    """

    line: int
    column: int
    name: str
    buffer: Buffer
    declared: bool = False
