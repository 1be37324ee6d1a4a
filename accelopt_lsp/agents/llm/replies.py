"""What models write, read strictly where it matters and forgivingly where it does not.

Thoughts, prose around code, fences of any language, sloppy JSON, a renamed function and a
forgotten import are forgiven. Code that does not parse, a changed parameter list and patches
that do not fit are refused with a reason that the fixer can work with. Replies are untrusted
text: limited in length, and nothing in them is executed here.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from accelopt_lsp.agents.llm.lenient import json_readings
from accelopt_lsp.agents.llm.patches import Unfitting, apply_patch, is_patch
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
_LEADING = re.compile(r"^[ \t]+", re.MULTILINE)
_CODE_BEGINS = re.compile(r"^\s*(?:@|def |import |from )", re.MULTILINE)
_THOUGHTS = re.compile(r"<(think|thinking|thought|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_THOUGHTS_END = re.compile(r"</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_FINAL = "<|channel|>final<|message|>"
_LABEL = re.compile(r"\b[SE]?\d{1,6}\b")
_PATCHES = ("diff", "patch", "udiff")
_PYTHON = ("", "python", "py", "python3", "nki")


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
    """Plans of a planner's reply, in its order and each once; none if it says that there are none.

    Raises:
        Unreadable: there is no JSON with plans in it.
    """
    empty = False
    for place in _places(text):
        best: list[PlanText] = []
        for values in json_readings(place):
            found, none = _plans_of(values)
            empty = empty or none
            if len(found) > len(best):
                best = found
        if best:
            return list({(p.title.casefold(), p.rationale.casefold()): p for p in best}.values())
    if empty:
        return []
    raise Unreadable('the reply has no JSON object {"plans": [{"title": ..., "rationale": ...}]}')


def _plans_of(values: Sequence[Any]) -> tuple[list[PlanText], bool]:
    """Plans among some values, and whether one of them says that there are none.

    The first list of plans counts, else single plans, as lines of JSON or a list that was cut
    off leave them.
    """
    none = False
    for value in values:
        items = _listed(value)
        if items is None:
            continue
        plans = [plan for item in items if (plan := _plan(item)) is not None]
        if plans:
            return plans, False
        none = none or (isinstance(value, Mapping) and not items)
    return [plan for value in values if (plan := _plan(value)) is not None], none


def _listed(value: Any) -> list[Any] | None:
    """The list of plans that a value holds, if it is made to hold one."""
    if isinstance(value, Mapping):
        value = next((value[name] for name in ("plans", "steps", "plan") if name in value), value)
    if isinstance(value, Mapping) and value and all(isinstance(v, Mapping) for v in value.values()):
        value = list(value.values())
    return value if isinstance(value, list) else None


_TITLES = ("title", "headline", "name", "step")
_REASONS = ("rationale", "reason", "why", "description")


def _plan(item: Any) -> PlanText | None:
    if isinstance(item, str):
        item = {"change": item} if len(item.split()) > 1 else {}
    if not isinstance(item, Mapping):
        return None
    title = _first(item, _TITLES, MAX_TITLE)
    rationale = _first(item, _REASONS, MAX_TEXT)
    change = _words(item.get("change"), MAX_TEXT)
    if not title:
        title = (change or rationale).partition("\n")[0][:MAX_TITLE]
    if not title:
        return None
    return PlanText(
        title,
        "\n".join(part for part in (rationale, change) if part),
        next(iter(_labels(item.get("site"))), None),
        _line(item.get("line")),
        _labels(item.get("experiences")),
    )


def _first(item: Mapping[Any, Any], names: Sequence[str], most: int) -> str:
    return next((text for name in names if (text := _words(item.get(name), most))), "")


def _line(value: Any) -> int | None:
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value.strip()[:9])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _labels(value: Any) -> tuple[str, ...]:
    """Labels such as ``S2``, from a text, a list of texts, or numbers."""
    items = value if isinstance(value, list) else [value]
    texts = [str(i) for i in items if isinstance(i, str | int) and not isinstance(i, bool)]
    return tuple(label for text in texts for label in _LABEL.findall(text.upper())[:32])


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
    for place in _places(text):
        for data in (value for values in json_readings(place) for value in values):
            if not isinstance(data, Mapping):
                continue
            title = _words(data.get("title"), MAX_TITLE)
            strategy = _words(data.get("strategy"), MAX_TEXT)
            if title and strategy:
                before, after = (_code_text(data.get(name)) for name in ("before", "after"))
                return StrategyText(title, strategy, before, after)
    raise Unreadable('the reply has no JSON object with "title" and "strategy"')


def _words(value: Any, most: int) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        return ""
    return "".join(c for c in value.strip() if c.isprintable() or c in "\n\t")[:most]


def _code_text(value: Any) -> str:
    if isinstance(value, list):
        value = "\n".join(str(line) for line in value)
    return _words(value, MAX_TEXT)


def _places(text: str) -> list[str]:
    """Where JSON may stand: in fences first, then anywhere."""
    text = answer_of(text)
    return [*(block.text for block in _blocks(text)), text]


def answer_of(reply: str) -> str:
    """A reply without the thoughts that some models put in front of their answer."""
    text = _THOUGHTS.sub("", reply)
    # Some templates open the tag themselves, so only its end is in the reply.
    text = _THOUGHTS_END.split(text)[-1]
    final = text.rpartition(_FINAL)[2]
    text = final.partition("<|")[0] if final != text else text
    return text if text.strip() else reply


@frozen(slots=True)
class _Block:
    """A fenced block; ``open`` if its end is missing."""

    language: str
    text: str
    open: bool = False


def _blocks(text: str) -> list[_Block]:
    """Fenced blocks; an unclosed last one counts."""
    found = [_Block(m.group(2).lower(), m.group(3)) for m in _FENCE.finditer(text)]
    tail = _OPEN_FENCE.search(_FENCE.sub("", text))
    if tail is not None:
        found.append(_Block(tail.group(1).lower(), tail.group(2), open=True))
    return found


def read_code(reply: str, source: str, function: str, *, cut: bool = False) -> str:
    """The file's text with the function as a model rewrote it.

    Takes a whole function (with helper functions, constants and imports beside it), a whole
    file, or a patch.

    Args:
        reply: what the model wrote.
        source: text of the file that it was to change.
        function: qualified name of the kernel in it.
        cut: the reply was ended before the model had finished.

    Raises:
        Unreadable: the reply holds no usable code.
    """
    parts = around_function(source, function)
    if parts is None:
        raise Unreadable(f"the file has no function {function}")
    text = answer_of(reply.replace("\r\n", "\n"))
    blocks = _blocks(text) or _unfenced(text, cut)
    if not blocks:
        raise Unreadable("the reply has no fenced block of Python code and no diff")
    reasons: list[str] = []
    if cut and blocks[-1].open:
        reasons.append("the reply was cut off before its code ended; write less, or a diff")
        blocks.pop()
    patches = [b.text for b in blocks if b.language in _PATCHES or is_patch(b.text)]
    if patches:
        try:
            return _checked(apply_patch(source, "\n".join(patches)), function)
        except (Unfitting, Unreadable) as reason:
            reasons.append(str(reason))
    codes = [b.text for b in blocks if b.language in _PYTHON and not is_patch(b.text)]
    last = f"def {function.rpartition('.')[2]}"
    # A model that shows pieces on the way puts the whole function last.
    for code in [c for whole in (True, False) for c in codes[::-1] if (last in c) is whole]:
        try:
            return _checked(_merged(code, source, parts, function), function)
        except Unreadable as reason:
            reasons.append(str(reason))
    raise Unreadable(reasons[0] if reasons else "the reply has no fenced block of Python code")


def _unfenced(text: str, cut: bool) -> list[_Block]:
    """Code or a patch that stands in a reply as it is."""
    if is_patch(text):
        return [_Block("diff", text, open=cut)]
    begins = _CODE_BEGINS.search(text)
    return [] if begins is None else [_Block("python", text[begins.start() :], open=cut)]


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
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            if not names <= known.keys():
                head.append(text)
        elif isinstance(node, _Function) and node.name in known:
            before = _replaced(before, node.name, text)
        elif names and not names & known.keys():
            head.append(text if isinstance(node, ast.Assign | ast.AnnAssign) else f"{text}\n\n")
    joined = "".join([*_forgotten(module, known, source), *head])
    return (f"{joined}\n\n" if joined and not joined.endswith("\n\n") else joined), before


_USUAL = {"nl": "language", "nisa": "isa", "nt": "typing"}
"""Names by which everybody imports NKI's modules."""


def _forgotten(module: ast.Module, known: Mapping[str, Any], source: str) -> list[str]:
    """Imports of NKI's modules that code uses by their usual names and nobody makes."""
    nodes = list(ast.walk(module))
    used = {
        n.value.id for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)
    }
    bound = {name for node in nodes if isinstance(node, ast.stmt) for name in _bound(node)}
    package = "neuronxcc.nki" if "neuronxcc" in source else "nki"
    return [
        f"import {package}.{_USUAL[name]} as {name}\n"
        for name in sorted((used & _USUAL.keys()) - bound - known.keys())
    ]


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
