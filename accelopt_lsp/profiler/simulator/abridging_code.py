"""What a function's bytecode says about its loops: which are plain, and which variables they carry.

A variable that is written before it is read on every way on from the head of a loop carries
nothing from one iteration to the next, nor out of the loop.
"""

from __future__ import annotations

import dis
import inspect
from types import CodeType

_SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_ENDS = frozenset("RETURN_VALUE RETURN_CONST RAISE_VARARGS RERAISE INTERPRETER_EXIT".split())
_JUMPS = frozenset("JUMP_FORWARD JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT JUMP".split())
_READS = frozenset(
    "LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_BORROW LOAD_FAST_LOAD_FAST DELETE_FAST "
    "LOAD_FAST_AND_CLEAR LOAD_FAST_BORROW_LOAD_FAST_BORROW".split()
)
_WRITES = frozenset({"STORE_FAST", "STORE_FAST_STORE_FAST"})


class ForStatement:
    """A ``for`` statement over the call of a function.

    Attributes:
        places: where its frame is while it asks for the next item.
        carried: local variables whose values may be read after that.
    """

    __slots__ = ("carried", "places")

    def __init__(self, places: range, carried: frozenset[str]) -> None:
        self.places = places
        self.carried = carried


_KNOWN: dict[CodeType, dict[int, ForStatement]] = {}


def for_statement(code: CodeType, at: int) -> ForStatement | None:
    """The statement ``for ... in CALL:`` whose call a frame is at; None where it is in none.

    Comprehensions and generators keep what they have made where nobody sees it, so theirs are
    none.
    """
    known = _KNOWN.get(code)
    if known is None:
        known = _KNOWN[code] = {}
        hidden = code.co_name.startswith("<") and code.co_name != "<module>"
        if not hidden and not code.co_flags & _SUSPENDED:
            _find(code, known)
    return known.get(at)


def _find(code: CodeType, known: dict[int, ForStatement]) -> None:
    parts = [p for p in dis.get_instructions(code) if p.opname != "EXTENDED_ARG"]
    live: list[frozenset[str]] | None = None
    for number in range(len(parts) - 3):
        call, begin, item, after = parts[number : number + 4]
        if begin.opname != "GET_ITER" or item.opname != "FOR_ITER":
            continue
        if live is None:
            live = _liveness(code, parts)
        statement = ForStatement(range(item.offset, after.offset), live[number + 2])
        # A frame's place is the instruction itself or one of the cache entries behind it.
        for place in range(call.offset, begin.offset):
            known[place] = statement


def _liveness(code: CodeType, parts: list[dis.Instruction]) -> list[frozenset[str]]:
    """Local variables that may be read from each instruction on before they are written."""
    places = {part.offset: number for number, part in enumerate(parts)}
    everything = frozenset(code.co_varnames)
    follow: list[list[int]] = []
    reads: list[frozenset[str]] = []
    writes: list[frozenset[str]] = []
    for number, part in enumerate(parts):
        name = part.opname
        following = []
        if name not in _ENDS and name not in _JUMPS and number + 1 < len(parts):
            following.append(number + 1)
        if part.opcode in dis.hasjrel or part.opcode in dis.hasjabs:
            following.append(_place(places, part.argval))
        follow.append(following)
        given = part.argval if isinstance(part.argval, tuple) else (part.argval,)
        variables = frozenset([v for v in given if isinstance(v, str)])
        if name in _WRITES:
            reads.append(frozenset())
            writes.append(variables)
        elif name in _READS:
            reads.append(variables)
            writes.append(frozenset())
        elif name == "STORE_FAST_LOAD_FAST":
            reads.append(frozenset(given[1:]) - frozenset(given[:1]))
            writes.append(frozenset(given[:1]))
        else:
            # Others that touch local variables may do anything.
            reads.append(everything if "FAST" in name else frozenset())
            writes.append(frozenset())
    for entry in getattr(dis.Bytecode(code), "exception_entries", ()):
        handler = _place(places, entry.target)
        for number, part in enumerate(parts):
            if entry.start <= part.offset < entry.end:
                follow[number].append(handler)
    live: list[frozenset[str]] = [frozenset()] * len(parts)
    changed = True
    while changed:
        changed = False
        for number in range(len(parts) - 1, -1, -1):
            after: frozenset[str] = frozenset().union(*[live[n] for n in follow[number]])
            # What raises in the middle of a store may not have stored: handlers see the old value.
            found = reads[number] | (after - writes[number])
            if found != live[number]:
                live[number] = found
                changed = True
    return live


def _place(places: dict[int, int], offset: int) -> int:
    """Number of the instruction at an offset, or of the next one that is listed."""
    while offset not in places:
        offset += 2
    return places[offset]
