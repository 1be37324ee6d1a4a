"""What is read out of models' replies, and what is refused with which reason."""

from __future__ import annotations

import json
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.agents.llm.patches import Unfitting, apply_patch
from accelopt_lsp.agents.llm.replies import (
    PlanText,
    Unreadable,
    read_code,
    read_plans,
    read_strategy,
)

SOURCE = textwrap.dedent(
    '''\
    """A file."""

    import nki
    import nki.language as nl

    P = 128


    def helper(n):
        return n + 1


    @nki.jit
    def kernel(x, scale=1.0):
        """Doc."""
        # a comment
        out = helper(1)
        return out


    def after():
        return P
    '''
)
BODY = "    return helper(2)\n"


def replaced(function: str, head: str = "") -> str:
    """SOURCE with the kernel exchanged and something in front of it."""
    start = SOURCE.index("@nki.jit")
    end = SOURCE.index("\n\n\ndef after")
    return SOURCE[:start] + head + function.rstrip() + SOURCE[end:]


WHOLE = f"@nki.jit\ndef kernel(x, scale=1.0):\n{BODY}"
READABLE = {
    "a fenced function": (f"Sure:\n```python\n{WHOLE}```\nBye", replaced(WHOLE)),
    "a fence without language": (f"```\n{WHOLE}```", replaced(WHOLE)),
    "tildes": (f"~~~py\n{WHOLE}~~~", replaced(WHOLE)),
    "an unclosed fence": (f"```python\n{WHOLE}", replaced(WHOLE)),
    "no fence": (f"Here it is.\n\n{WHOLE}", replaced(WHOLE)),
    "no decorator": (f"```python\n{WHOLE[9:]}```", replaced(WHOLE)),
    "another name": (f"```python\n{WHOLE.replace('kernel', 'fast_kernel')}```", replaced(WHOLE)),
    "an indented block": (f"```python\n{textwrap.indent(WHOLE, '  ')}```", replaced(WHOLE)),
    "windows line ends": (f"```python\r\n{WHOLE}```".replace("\n", "\r\n"), replaced(WHOLE)),
    "pieces first": (f"```python\nout = 1\n```\nso\n```python\n{WHOLE}```", replaced(WHOLE)),
    "a whole file": (
        f"```python\nimport nki\nimport nki.language as nl\n\nP = 128\n\n\n{WHOLE}```",
        replaced(WHOLE),
    ),
    "a new constant and helper": (
        f"```python\nQ = 64\n\ndef more(n):\n    return n\n\n{WHOLE}```",
        replaced(WHOLE, "Q = 64\ndef more(n):\n    return n\n\n\n"),
    ),
    "a new import": (
        f"```python\nimport nki.isa as nisa\n\n{WHOLE}```",
        replaced(WHOLE, "import nki.isa as nisa\n\n\n"),
    ),
    "a changed helper": (
        f"```python\ndef helper(n):\n    return n + 2\n\n{WHOLE}```",
        replaced(WHOLE).replace("n + 1", "n + 2"),
    ),
    "a diff": (
        "```diff\n--- a/k.py\n+++ b/k.py\n@@ -16,3 +16,3 @@\n     # a comment\n"
        "-    out = helper(1)\n+    out = helper(3)\n     return out\n```",
        SOURCE.replace("helper(1)", "helper(3)"),
    ),
    "a diff with wrong numbers and lost blanks": (
        "```diff\n@@ -1,1 +1,1 @@\n# a comment\n-    out = helper(1)\n+    out = helper(3)\n```",
        SOURCE.replace("helper(1)", "helper(3)"),
    ),
}


@pytest.mark.parametrize(("reply", "expected"), READABLE.values(), ids=READABLE)
def test_code_is_found(reply: str, expected: str) -> None:
    assert read_code(reply, SOURCE, "kernel") == expected


REFUSED = {
    "prose": ("No.", "no fenced block"),
    "broken": ("```python\ndef kernel(x, scale=1.0:\n    pass\n```", "does not parse: line 1"),
    "parameters": ("```python\ndef kernel(x):\n    pass\n```", "parameters must stay"),
    "several functions": ("```python\ndef f(): pass\ndef g(): pass\n```", "it defines: f, g"),
    "no function": ("```python\nout = 1\n```", "it defines: none"),
    "an unfitting diff": ("```diff\n@@\n-nothing like it\n+else\n```", "no place for 'nothing"),
    "an ambiguous diff": ("```diff\n@@\n-\n-\n+\n```", "no line to find its place"),
    "an empty diff": ("```diff\n@@\n     return out\n```", "no hunk"),
    "a breaking diff": ("```diff\n@@\n-    return out\n+    return (out\n```", "does not parse"),
    "too long": (
        "```python\ndef kernel(x, scale=1.0):\n    return '" + "x" * 300_000 + "'\n```",
        "longer than",
    ),
}


@pytest.mark.parametrize(("reply", "reason"), REFUSED.values(), ids=REFUSED)
def test_unusable_code_is_refused_with_the_reason(reply: str, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        read_code(reply, SOURCE, "kernel")


def test_a_method_keeps_its_place() -> None:
    source = "class A:\n    @nki.jit\n    def f(self, x):\n        return x\n\n    y = 1\n"
    reply = "```python\ndef f(self, x):\n    z = x\n    return z\n```"
    expected = source.replace("        return x\n", "        z = x\n        return z\n")
    assert read_code(reply, source, "A.f") == expected


def test_a_hunk_that_fits_twice_is_refused() -> None:
    with pytest.raises(Unfitting, match="fits 2 places"):
        apply_patch("a\nb\na\n", "@@\n-a\n+c\n")


PLANS = {
    "bare": '{"plans": [{"title": "t", "rationale": "r"}]}',
    "fenced": 'Ok\n```json\n{"plans": [{"title": "t", "rationale": "r"}]}\n```\nbye {not json}',
    "a list": '[{"title": "t", "rationale": "r"}]',
    "one": '{"title": "t", "rationale": "r"}',
    "trailing commas": '{"plans": [{"title": "t", "rationale": "r",},],}',
    "rubbish first": '{broken} [1, 2] {"plans": []} {"plans": [{"title": "t", "rationale": "r"}]}',
    "raw line ends": '{"plans": [{"title": "t", "rationale": "r\n"}]}',
    "broken ones among them": '{"plans": [3, {"x": 1}, {"title": "t", "rationale": "r"}]}',
}


@pytest.mark.parametrize("reply", PLANS.values(), ids=PLANS)
def test_plans_are_found(reply: str) -> None:
    assert read_plans(reply) == [PlanText("t", "r")]


def test_a_plan_has_what_it_names() -> None:
    item = {"title": "t", "change": "c", "site": "S2", "line": 7, "experiences": ["E1", 3]}
    assert read_plans(json.dumps([item])) == [PlanText("t", "c", "S2", 7, ("E1", "3"))]


def test_plans_are_limited_in_length_and_cleaned() -> None:
    (plan,) = read_plans(
        json.dumps([{"title": "a\x1b[31m" + "b" * 1_000, "rationale": "r" * 9_999}])
    )
    assert plan.title == "a[31m" + "b" * 195
    assert len(plan.rationale) == 4_000


@pytest.mark.parametrize("reply", ["", "nothing", "{}", '{"plans": "many"}', "[1]", "{" * 9_999])
def test_no_plans(reply: str) -> None:
    with pytest.raises(Unreadable, match="no JSON object"):
        read_plans(reply)


def test_a_strategy() -> None:
    reply = '```json\n{"title": "T", "strategy": "S", "before": ["a", "b"], "after": "c"}\n```'
    found = read_strategy(reply)
    assert (found.title, found.text, found.before, found.after) == ("T", "S", "a\nb", "c")
    with pytest.raises(Unreadable):
        read_strategy('{"title": "T"}')


@given(st.text(alphabet=st.characters(), max_size=300) | st.sampled_from(["```python\n", "@@\n-"]))
def test_any_text_is_read_or_refused(text: str) -> None:
    for read in (read_plans, read_strategy, lambda t: read_code(t, SOURCE, "kernel")):
        try:
            read(text)
        except Unreadable as reason:
            assert str(reason)
