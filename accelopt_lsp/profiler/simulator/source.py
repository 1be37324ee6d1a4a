"""Where a call stands in the kernel's source: lines, statements and the names they assign."""

from __future__ import annotations

import ast
import linecache
from types import CodeType, FrameType

from attrs import define, field, frozen

PACKAGE = __name__.rsplit(".", 3)[0]


@frozen(slots=True)
class Statement:
    """A simple statement: its first line, and the name it assigns, if it assigns one."""

    line: int
    target: str


@frozen(slots=True, eq=False)
class Site:
    """One call instruction in the bytecode of user code.

    Attributes:
        id: number, in order of first execution.
        line: line in the kernel's file, or None when the code is of another file.
        file: file of the code.
        own_line: line in ``file``.
        statement: number of the statement's first line in ``file``.
        target: name that the statement assigns, for people.
        code: keeps the code object alive, whose identity is part of the key.
    """

    id: int
    line: int | None
    file: str
    own_line: int
    statement: int
    target: str
    code: CodeType


def _target_name(node: ast.stmt) -> str:
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        targets = [node.target]
    for target in targets:
        while isinstance(target, ast.Subscript | ast.Attribute):
            target = target.value
        if isinstance(target, ast.Name):
            return target.id
    return ""


def _statements(text: str) -> dict[int, Statement]:
    """Line to the innermost simple statement that covers it; empty for text with errors."""
    found: dict[int, Statement] = {}
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return found
    nodes: list[ast.AST] = [tree]
    for node in nodes:
        # Not ast.walk, which visits expressions as well: most of a file.
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            nodes.extend(getattr(node, name, ()))
        if not isinstance(node, ast.stmt) or hasattr(node, "body"):
            continue
        entry = Statement(node.lineno, _target_name(node))
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
            found[line] = entry
    return found


@define(slots=True)
class Sources:
    """Texts of the files that user code comes from.

    Attributes:
        main: file name of the kernel's own file.
        texts: file name to text, for files that differ from what is on disk.
        sites: identity of code and position in it to the place.
    """

    main: str
    texts: dict[str, str] = field(factory=dict)
    _statements: dict[str, dict[int, Statement]] = field(factory=dict)
    sites: dict[tuple[int, int], Site] = field(factory=dict)

    def site(self, frame: FrameType) -> Site:
        """The place a frame of user code is at."""
        code = frame.f_code
        key = (id(code), frame.f_lasti)
        found = self.sites.get(key)
        if found is None:
            found = self.sites[key] = self._new_site(frame, code)
        return found

    def _new_site(self, frame: FrameType, code: CodeType) -> Site:
        file = code.co_filename
        own = frame.f_lineno or code.co_firstlineno
        statement = self.statements(file).get(own) or Statement(own, "")
        line = own if file == self.main else None
        return Site(len(self.sites), line, file, own, statement.line, statement.target, code)

    def line(self, site: Site, frame: FrameType) -> int:
        """Line in the kernel's file that led to this call; the call's own line if none did."""
        if site.line is not None:
            return site.line
        outer: FrameType | None = frame
        while outer is not None:
            if outer.f_code.co_filename == self.main:
                return outer.f_lineno or 1
            outer = outer.f_back
        return site.own_line

    def statements(self, file: str) -> dict[int, Statement]:
        found = self._statements.get(file)
        if found is None:
            text = self.texts.get(file)
            if text is None:
                text = "".join(linecache.getlines(file))
            found = self._statements[file] = _statements(text)
        return found

    def text(self, file: str, line: int) -> str:
        """One line of a file, stripped, for people."""
        if file in self.texts:
            lines = self.texts[file].splitlines()
            return lines[line - 1].strip() if 0 < line <= len(lines) else ""
        return linecache.getline(file, line).strip()
