"""What models write, read strictly where it matters and forgivingly where it does not.

Prose around code, fences of any language, trailing commas and a renamed function are
forgiven. Code that does not parse, a changed parameter list and patches that do not fit are
refused with a reason that the fixer can work with. Replies are untrusted text: limited in
length, and nothing in them is executed here.
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from accelopt_lsp.agents.normalise import around_function
from accelopt_lsp.nki.python_source import parse_python

MAX_TITLE = 200
MAX_TEXT = 4_000
MAX_CODE = 256_000
_FENCE = re.compile(
    r"^[ \t]*(```+|~~~+)[ \t]*([\w+.-]*)[^\n]*\n(.*?)^[ \t]*\1[ \t]*$", re.MULTILINE | re.DOTALL
)
_OPEN_FENCE = re.compile(
    r"^[ \t]*(?:```+|~~~+)[ \t]*([\w+.-]*)[^\n]*\n(.*)\Z", re.MULTILINE | re.DOTALL
)
_TRAILING_COMMA = re.compile(r",(\s*[\]}])")
_LEADING = re.compile(r"^[ \t]+", re.MULTILINE)
_CODE_BEGINS = re.compile(r"^\s*(?:@|def |import |from )", re.MULTILINE)
_HUNK = re.compile(r"^@@[^\n]*$", re.MULTILINE)


class Unreadable(ValueError):
    """A reply that cannot be used. The message says what is wrong, for the fixer."""


@frozen(slots=True)
class PlanText:
    """One plan as a model wrote it.

    Attributes:
        title, rationale: words, cut to a sensible length.
        site: label of the catalogue's site that carries it out (``S3``), if it names one.
        line: source line, if it names one.
        experiences: labels of experiences that it draws on (``E2``).
    """

    title: str
    rationale: str
    site: str | None = None
    line: int | None = None
    experiences: tuple[str, ...] = ()


def read_plans(text: str) -> list[PlanText]:
    """Plans of a planner's reply, in its order.

    Raises:
        Unreadable: there is no JSON with plans in it.
    """
    for data in _json_values(text):
        items = data.get("plans", data) if isinstance(data, Mapping) else data
        if isinstance(items, Mapping):
            items = [items]
        if not isinstance(items, list):
            continue
        plans = [plan for item in items if (plan := _plan(item)) is not None]
        if plans:
            return plans
    raise Unreadable('the reply has no JSON object {"plans": [{"title": ..., "rationale": ...}]}')


def _plan(item: Any) -> PlanText | None:
    if not isinstance(item, Mapping):
        return None
    title = _words(item.get("title"), MAX_TITLE)
    rationale = _words(item.get("rationale"), MAX_TEXT)
    change = _words(item.get("change"), MAX_TEXT)
    if not title:
        title = (change or rationale).partition("\n")[0][:MAX_TITLE]
    if not title:
        return None
    site, line, drawn = item.get("site"), item.get("line"), item.get("experiences")
    return PlanText(
        title,
        "\n".join(part for part in (rationale, change) if part),
        site.strip() if isinstance(site, str) and site.strip() else None,
        line if isinstance(line, int) and not isinstance(line, bool) and line > 0 else None,
        tuple(e for e in drawn if isinstance(e, str)) if isinstance(drawn, list) else (),
    )


@frozen(slots=True)
class StrategyText:
    """A strategy as a model worded it."""

    title: str
    text: str
    before: str
    after: str


def read_strategy(text: str) -> StrategyText:
    """The summarizer's reply.

    Raises:
        Unreadable: it has no JSON object with ``title`` and ``strategy``.
    """
    for data in _json_values(text):
        if isinstance(data, Mapping):
            title = _words(data.get("title"), MAX_TITLE)
            strategy = _words(data.get("strategy"), MAX_TEXT)
            if title and strategy:
                before, after = (_code_text(data.get(name)) for name in ("before", "after"))
                return StrategyText(title, strategy, before, after)
    raise Unreadable('the reply has no JSON object with "title" and "strategy"')


def _words(value: Any, most: int) -> str:
    if not isinstance(value, str):
        return ""
    return "".join(c for c in value.strip() if c.isprintable() or c in "\n\t")[:most]


def _code_text(value: Any) -> str:
    if isinstance(value, list):
        value = "\n".join(str(line) for line in value)
    return _words(value, MAX_TEXT)


def _json_values(text: str) -> Iterator[Any]:
    """JSON objects and arrays of a reply: in fences first, then anywhere; best guess first."""
    places = [block for _, block in _blocks(text)] + [text]
    decoder = json.JSONDecoder(strict=False)
    for place in places:
        for repaired in (place, _TRAILING_COMMA.sub(r"\1", place)):
            position, tries = 0, 0
            while tries < 50:
                found = re.compile(r"[{\[]").search(repaired, position)
                if found is None:
                    break
                tries += 1
                try:
                    value, position = decoder.raw_decode(repaired, found.start())
                except (ValueError, RecursionError):
                    position = found.start() + 1
                    continue
                yield value


def _blocks(text: str) -> list[tuple[str, str]]:
    """(language, content) of fenced blocks; an unclosed last one counts."""
    found = [(m.group(2).lower(), m.group(3)) for m in _FENCE.finditer(text)]
    rest = _FENCE.sub("", text)
    tail = _OPEN_FENCE.search(rest)
    if tail is not None:
        found.append((tail.group(1).lower(), tail.group(2)))
    return found


def read_code(reply: str, source: str, function: str) -> str:
    """The file's text with the function as a model rewrote it.

    Takes a whole function (with helper functions, constants and imports beside it), a whole
    file, or a unified diff.

    Args:
        reply: what the model wrote.
        source: text of the file that it was to change.
        function: qualified name of the kernel in it.

    Raises:
        Unreadable: the reply holds no usable code.
    """
    parts = around_function(source, function)
    if parts is None:
        raise Unreadable(f"the file has no function {function}")
    blocks = _blocks(reply)
    diffs = [code for language, code in blocks if language in ("diff", "patch")]
    diffs += [code for language, code in blocks if not language and _HUNK.search(code)]
    if diffs:
        return _checked(apply_diff(source, "\n".join(diffs)), function)
    codes = [code for language, code in blocks if language in ("", "python", "py", "python3")]
    begins = _CODE_BEGINS.search(reply)
    if not codes and begins is not None:
        codes = [reply[begins.start() :]]
    if not codes:
        raise Unreadable("the reply has no fenced block of Python code and no diff")
    last = function.rpartition(".")[2]
    reasons: list[str] = []
    # A model that shows pieces on the way puts the whole function last.
    for code in sorted(codes, key=lambda c: f"def {last}" in c, reverse=True):
        try:
            return _checked(_merged(code, source, parts, function), function)
        except Unreadable as reason:
            reasons.append(str(reason))
    raise Unreadable(reasons[0])


def _checked(text: str, function: str) -> str:
    if len(text) > MAX_CODE:
        raise Unreadable(f"the code is longer than {MAX_CODE:,} characters")
    _parsed(text)
    if around_function(text, function) is None:
        raise Unreadable(f"the code defines no function {function}")
    return text


def _parsed(text: str) -> ast.Module:
    try:
        return parse_python(text)
    except SyntaxError as error:
        line = (error.text or "").strip()
        raise Unreadable(
            f"the code does not parse: line {error.lineno}: {error.msg}: {line[:120]}"
        ) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(f"the code does not parse: {error}") from None


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _merged(code: str, source: str, parts: tuple[str, str, str], function: str) -> str:
    """The file with the kernel replaced and what stands beside it in ``code`` taken over."""
    name = function.rpartition(".")[2]
    code = _dedented(code)
    module = _parsed(code)
    functions = [n for n in module.body if isinstance(n, _Function)]
    kernel = next((f for f in functions if f.name == name), None)
    if kernel is None:
        kernel = _renamed(functions)
    if kernel is None:
        found = ", ".join(f.name for f in functions) or "none"
        raise Unreadable(f"the reply must define the function {name}; it defines: {found}")
    before, _, after = parts
    old = _function_node(source, function)
    _same_parameters(kernel, old)
    lines = code.splitlines(keepends=True)
    new = _with_decorators(_text_of(kernel, lines, name), kernel, old)
    indent = _indent_of(before)
    if indent:
        new = _indented(new, indent)
    head, before = _beside(module, kernel, lines, source, before)
    return f"{before}{head}{new.rstrip()}{_line_end(after)}{after}"


def _line_end(after: str) -> str:
    return "" if after.startswith(("\n", "\r")) or not after else "\n"


def _indent_of(before: str) -> str:
    """Indentation of the function: white space between the last line end and it."""
    tail = before[before.rfind("\n") + 1 :]
    return tail if not tail.strip() else ""


def _indented(text: str, indent: str) -> str:
    first, *rest = text.splitlines(keepends=True)
    return first + "".join(indent + line if line.strip() else line for line in rest)


def _dedented(code: str) -> str:
    spaced = _LEADING.sub(lambda m: m.group().expandtabs(4), code.replace("\r\n", "\n"))
    return textwrap.dedent(spaced)


def _renamed(functions: Sequence[_Function]) -> _Function | None:
    """The function that must be meant if none has the right name: the only (decorated) one."""
    decorated = [f for f in functions if f.decorator_list]
    for group in (functions, decorated):
        if len(group) == 1:
            return group[0]
    return None


def _text_of(node: _Function, lines: Sequence[str], name: str) -> str:
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    text = "".join(lines[first - 1 : node.end_lineno])
    if node.name == name:
        return text
    return re.sub(rf"\bdef(\s+){re.escape(node.name)}\b", rf"def\g<1>{name}", text, count=1)


def _with_decorators(text: str, node: _Function, old: _Function | None) -> str:
    """Models drop decorators; the kernel keeps those that it had."""
    if node.decorator_list or old is None:
        return text
    return "".join(f"@{ast.unparse(d)}\n" for d in old.decorator_list) + text


def _same_parameters(node: _Function, old: _Function | None) -> None:
    if old is None:
        return
    want, have = ([a.arg for a in _arguments(f)] for f in (old, node))
    if want != have:
        raise Unreadable(
            f"the parameters must stay ({', '.join(want)}), the reply has ({', '.join(have)})"
        )


def _function_node(source: str, function: str) -> _Function | None:
    """A function of a file by its qualified name."""
    try:
        scope: ast.AST = parse_python(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for name in function.replace(".<locals>.", ".").split("."):
        found = next(
            (
                n
                for n in ast.walk(scope)
                if isinstance(n, _Function | ast.ClassDef) and n.name == name
            ),
            None,
        )
        if found is None:
            return None
        scope = found
    return scope if isinstance(scope, _Function) else None


def _arguments(node: _Function) -> list[ast.arg]:
    a = node.args
    extra = [x for x in (a.vararg, a.kwarg) if x is not None]
    return [*a.posonlyargs, *a.args, *a.kwonlyargs, *extra]


def _beside(
    module: ast.Module, kernel: _Function, lines: Sequence[str], source: str, before: str
) -> tuple[str, str]:
    """Helpers, constants and imports of a reply that the file does not have yet.

    Returns:
        What goes in front of the kernel, and the text before it with changed helpers replaced.
    """
    known = _top_level(source)
    head: list[str] = []
    for node in module.body:
        if node is kernel or isinstance(node, ast.Expr):
            continue
        text = "".join(lines[_first_line(node) - 1 : node.end_lineno]).rstrip() + "\n"
        names = _bound(node)
        if isinstance(node, ast.Import | ast.ImportFrom):
            if not names <= known.keys():
                head.append(text)
        elif isinstance(node, _Function) and node.name in known:
            before = _replaced(before, node.name, text)
        elif names and not names & known.keys():
            head.append(text if isinstance(node, ast.Assign | ast.AnnAssign) else f"{text}\n\n")
    joined = "".join(head)
    return (f"{joined}\n\n" if joined and not joined.endswith("\n\n") else joined), before


def _replaced(before: str, name: str, text: str) -> str:
    """The text before the kernel with one of its helper functions exchanged."""
    parts = around_function(before, name)
    return before if parts is None else f"{parts[0]}{text.rstrip()}{parts[2]}"


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(d.lineno for d in decorators)])


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {a.asname or a.name.partition(".")[0] for a in node.names}
    if isinstance(node, _Function | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {t.id for t in targets if isinstance(t, ast.Name)}


def _top_level(source: str) -> dict[str, ast.stmt]:
    try:
        module = parse_python(source)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    return {name: node for node in module.body for name in _bound(node)}


def apply_diff(source: str, diff: str) -> str:
    """A text with a unified diff applied; places are found by content, not by line numbers.

    Raises:
        Unreadable: a hunk does not fit, or fits several places equally well.
    """
    lines = source.splitlines()
    for old, new in _hunks(diff):
        at = _place(lines, old)
        lines[at : at + len(old)] = new
    return "\n".join(lines) + ("\n" if source.endswith("\n") or not source else "")


def _hunks(diff: str) -> Iterator[tuple[list[str], list[str]]]:
    found = False
    for chunk in _HUNK.split(diff)[1:]:
        old: list[str] = []
        new: list[str] = []
        for line in chunk.strip("\n").split("\n"):
            mark, text = line[:1], line[1:]
            if line.startswith(("--- ", "+++ ", "\\", "diff ", "index ")):
                continue
            if mark in (" ", ""):
                old.append(text)
                new.append(text)
            elif mark == "-":
                old.append(text)
            elif mark == "+":
                new.append(text)
            else:
                # A context line whose leading blank was lost.
                old.append(line)
                new.append(line)
        if old != new:
            found = True
            yield old, new
    if not found:
        raise Unreadable("the diff has no hunk (@@ ... @@) that changes anything")


def _place(lines: Sequence[str], old: Sequence[str]) -> int:
    shown = next((line.strip() for line in old if line.strip()), "")
    if not shown:
        raise Unreadable("a hunk of the diff has no line to find its place by")
    ways: tuple[Callable[[str], str], ...] = (str.rstrip, str.strip)
    for clean in ways:
        want = [clean(line) for line in old]
        have = [clean(line) for line in lines]
        places: list[int] = [
            at for at in range(len(have) - len(want) + 1) if have[at : at + len(want)] == want
        ]
        if len(places) == 1:
            return int(places[0])
        if places:
            raise Unreadable(f"a hunk fits {len(places)} places; give more context: {shown[:80]!r}")
    raise Unreadable(f"a hunk does not fit the code: no place for {shown[:80]!r}")
