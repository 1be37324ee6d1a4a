"""Each case is a kernel and the text that its rewrite must make of it."""

from __future__ import annotations

import ast
import difflib
from pathlib import Path

import pytest

from accelopt_lsp.rewrites import apply_named, catalogue, find_rewrite
from tests.rewrites.kernels import arguments_of, case_files, context_of, parameters, title

_LEGACY_ONLY = {"hoist-transpose"}
"""Products of the current dialect take transposed operands only."""


@pytest.mark.parametrize("path", case_files(), ids=title)
def test_rewrite_gives_the_golden_text(path: Path, golden) -> None:
    text = path.read_text(encoding="utf-8")
    name, arguments = arguments_of(text)
    result = apply_named(text, name, path.parent.name, parameters(text), arguments)
    ast.parse(result)
    golden(result, path.with_name(path.name.replace(".in.py", ".out.py")))


@pytest.mark.parametrize("path", case_files(), ids=title)
def test_changed_lines_lie_inside_the_kernel_or_its_constants(path: Path) -> None:
    """What a rewrite has no business with stays byte for byte as it was."""
    text = path.read_text(encoding="utf-8")
    context = context_of(text)
    first, last = context.function.lineno, context.function.end_lineno or 0
    named = {n for n in ast.walk(context.tree) if isinstance(n, ast.Assign)}
    constants = {n.lineno for n in named if n.lineno < first}
    rewrite = find_rewrite(path.parent.name)
    before = text.splitlines(keepends=True)
    for site in rewrite.find(context):
        after = rewrite.apply(context, site).splitlines(keepends=True)
        for tag, a, b, _, _ in difflib.SequenceMatcher(None, before, after).get_opcodes():
            if tag != "equal":
                touched = set(range(a + 1, b + 1)) or {a}
                assert all(first <= n <= last or n in constants for n in touched)


@pytest.mark.parametrize("path", case_files(), ids=title)
def test_sites_can_be_named_by_their_parameters(path: Path) -> None:
    """A planner may store a site's parameters and get the same text later."""
    text = path.read_text(encoding="utf-8")
    context = context_of(text)
    rewrite = find_rewrite(path.parent.name)
    sites = rewrite.find(context)
    assert sites
    assert len({s.id for s in sites}) == len(sites)
    assert [s.rank for s in sites] == list(range(len(sites)))
    for site in sites:
        named = apply_named(
            text,
            context.kernel.qualname,
            rewrite.name,
            site.parameters,
            context.arguments,
            context.target,
        )
        assert named == rewrite.apply(context, site)


def test_every_rewrite_has_cases_in_both_dialects() -> None:
    for rewrite in catalogue():
        dialects = {
            context_of(p.read_text(encoding="utf-8")).dialect
            for p in case_files()
            if p.parent.name == rewrite.name
        }
        expected = 1 if rewrite.name in _LEGACY_ONLY else 2
        assert len(dialects) == expected, rewrite.name


def test_every_rewrite_describes_itself() -> None:
    for rewrite in catalogue():
        description = rewrite.description
        assert description.title and description.strategy
        assert description.before != description.after
        assert description.bottlenecks and description.instructions
        assert rewrite.title in description.markdown()
