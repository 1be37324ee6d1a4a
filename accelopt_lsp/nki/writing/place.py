"""A place in a text with what the surroundings say: imports, target, version."""

from __future__ import annotations

from functools import cached_property

from attrs import define, field

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.reference.names import Name, NameKind, find_name
from accelopt_lsp.nki.writing.imports import Imports, read_imports
from accelopt_lsp.nki.writing.scan import OpenCall, masked, open_calls, primary_start
from accelopt_lsp.nki.writing.tiles import is_tensor


@define(slots=False, eq=False)
class Place:
    """One place in one text.

    Attributes:
        text: all of it.
        offset: the place, in characters.
        target: hardware that code here is for; None takes the dialect's default.
        version: NKI version in force, if known.
        codes: rules for suppressions: code and name.
        imports: of the text; read from it unless given.
    """

    text: str
    offset: int
    target: str | None = None
    version: str | None = None
    codes: tuple[tuple[str, str], ...] = ()
    imports: Imports = field(kw_only=True)

    @imports.default
    def _read_imports(self) -> Imports:
        return read_imports(self.code)

    @cached_property
    def code(self) -> str:
        return masked(self.text)

    @property
    def dialect(self) -> Dialect:
        return self.imports.dialect or Dialect.CURRENT

    @property
    def hardware(self) -> str:
        return self.target or ("trn1" if self.dialect is Dialect.LEGACY else "trn2")

    @cached_property
    def calls(self) -> list[OpenCall]:
        return open_calls(self.code, self.offset)

    def named(self, call: OpenCall) -> Name | None:
        """What a call calls, if it is a name of NKI or a method of a tensor."""
        if not call.callee.startswith("."):
            path = self.imports.canonical(call.callee)
            if path is not None:
                name = find_name(path)
                return name if name is not None and name.calls else None
        method = find_name(f"tensor.{call.callee.rpartition('.')[2]}")
        if method is None or method.kind is not NameKind.METHOD or "." not in call.callee:
            return None
        end = call.callee_start - 1
        if not call.callee.startswith("."):
            end = call.callee_start + call.callee.rfind(".")
        return method if self.is_tensor(end) else None

    def name_of(self, dotted: str, start: int) -> Name | None:
        """The NKI name that a dotted name stands for, or the tensor's attribute at its end.

        Args:
            dotted: as the text writes it.
            start: where it begins.
        """
        path = self.imports.canonical(dotted)
        if path is not None:
            return find_name(path)
        owner, _, last = dotted.rpartition(".")
        found = find_name(f"tensor.{last}")
        if found is None or self.dialect not in found.dialects:
            return None
        before = start - 1 if not owner else start + len(owner)
        is_attribute = self.code[before : before + 1] == "."
        return found if is_attribute and self.is_tensor(before) else None

    def is_tensor(self, end: int) -> bool:
        """Whether the expression that ends there is a tensor."""
        expression = "".join(self.code[primary_start(self.code, end) : end].split())
        return bool(expression) and is_tensor(expression, self.code[: self.offset], self.imports)

    def missing(self, name: Name) -> str:
        """Why code here cannot use a name; empty if it can."""
        return name.missing(self.dialect, self.hardware, self.version)
