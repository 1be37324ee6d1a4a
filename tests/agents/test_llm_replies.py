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
OLD = SOURCE[SOURCE.index("@nki.jit") : SOURCE.index("\n\ndef after")]
USES_ISA = "@nki.jit\ndef kernel(x, scale=1.0):\n    nisa.memset(x, 0)\n    return x\n"
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
    "thoughts first": (
        f"<think>\n```python\nx = 1\n```\n</think>\n```\n{WHOLE}```",
        replaced(WHOLE),
    ),
    "thoughts whose beginning the template wrote": (
        f"Hm: ```x```\n</think>\n```python\n{WHOLE}```",
        replaced(WHOLE),
    ),
    "thoughts in channels": (
        f"<|channel|>analysis<|message|>def kernel(x): no<|end|><|start|>assistant"
        f"<|channel|>final<|message|>```python\n{WHOLE}```<|return|>",
        replaced(WHOLE),
    ),
    "the old kernel quoted first": (
        f"Before:\n```python\n{OLD}```\nAfter:\n```python\n{WHOLE}```",
        replaced(WHOLE),
    ),
    "a forgotten import": (
        f"```python\n{USES_ISA}```",
        replaced(USES_ISA, "import nki.isa as nisa\n\n\n"),
    ),
    "an import from the future": (
        f"```python\nfrom __future__ import annotations\n\n{WHOLE}```",
        replaced(WHOLE),
    ),
    "a longer fence": (f"````python\n{WHOLE}````", replaced(WHOLE)),
    "a diff without a fence": (
        "--- a/k.py\n+++ b/k.py\n@@ -1 +1 @@\n-    out = helper(1)\n+    out = helper(3)\n",
        SOURCE.replace("helper(1)", "helper(3)"),
    ),
    "a diff with windows line ends": (
        "```diff\r\n@@\r\n-    out = helper(1)\r\n+    out = helper(3)\r\n```\r\n",
        SOURCE.replace("helper(1)", "helper(3)"),
    ),
    "a diff with tabs": (
        "```diff\n@@\n \t# a comment\n-\tout = helper(1)\n+\tout = helper(3)\n \treturn out\n```",
        SOURCE.replace("helper(1)", "helper(3)"),
    ),
    "a diff whose context is wrong at its ends": (
        "```diff\n@@ -9,9 +9,9 @@\n     # another comment\n-    out = helper(1)\n"
        "+    out = helper(3)\n     return nothing\n```",
        SOURCE.replace("helper(1)", "helper(3)"),
    ),
    "a diff that lost the indentation": (
        "```diff\n@@\n-out = helper(1)\n+out = helper(3)\n```",
        SOURCE.replace("helper(1)", "helper(3)"),
    ),
    "a diff in several hunks": (
        "```diff\n@@\n-P = 128\n+P = 64\n@@\n-    out = helper(1)\n+    out = helper(3)\n```",
        SOURCE.replace("P = 128", "P = 64").replace("helper(1)", "helper(3)"),
    ),
    "an apply-patch block": (
        "```\n*** Begin Patch\n*** Update File: k.py\n@@ def kernel\n-    out = helper(1)\n"
        "+    out = helper(3)\n*** End Patch\n```",
        SOURCE.replace("helper(1)", "helper(3)"),
    ),
    "search and replace": (
        "k.py\n<<<<<<< SEARCH\n    out = helper(1)\n=======\n    out = helper(3)\n"
        ">>>>>>> REPLACE\n",
        SOURCE.replace("helper(1)", "helper(3)"),
    ),
    "a diff that does not fit, and the whole": (
        f"```diff\n@@\n-nothing like it\n+else\n```\n```python\n{WHOLE}```",
        replaced(WHOLE),
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


def test_code_that_was_cut_off_is_refused() -> None:
    reply = f"```python\n{WHOLE}"
    assert read_code(reply, SOURCE, "kernel") == replaced(WHOLE)
    with pytest.raises(Unreadable, match="cut off before its code ended"):
        read_code(reply, SOURCE, "kernel", cut=True)
    whole = f"```python\n{WHOLE}```\nAnd then"
    assert read_code(whole, SOURCE, "kernel", cut=True) == replaced(WHOLE)


def test_a_patch_leaves_other_lines_as_they_are() -> None:
    source = "a = 1\r\nb = 2\x0c\r\nc = '\u2028'\r\nd = 4"
    patched = apply_patch(source, "@@\n-a = 1\n+a = 3\n+e = 5\n")
    assert patched == "a = 3\r\ne = 5\r\nb = 2\x0c\r\nc = '\u2028'\r\nd = 4"
    assert apply_patch(source, "@@\n-d = 4\n+d = 5\n+e = 6\n").endswith("d = 5\r\ne = 6")


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
    "thoughts first": '<think>{"plans": [{"title": "no"}]}</think>[{"title":"t","rationale":"r"}]',
    "comments": '{"plans": [ // one\n {"title": "t", /* why */ "rationale": "r"} # so\n]}',
    "single quotes": "{'plans': [{'title': 't', 'rationale': 'r', 'site': None, 'x': True}]}",
    "numbered": '{"plans": {"1": {"title": "t", "rationale": "r"}}}',
    "other names": '{"steps": [{"headline": "t", "reason": "r"}]}',
    "twice the same": '[{"title": "T", "rationale": "R"}, {"title": "t", "rationale": "r"}]',
    "cut off": '{"plans": [{"title": "t", "rationale": "r"}, {"title": "half',
    "a list of nothing in front": '[] [1] {"plans": [{"title": "t", "rationale": "r"}]}',
    "broken ones among them": '{"plans": [3, {"x": 1}, {"title": "t", "rationale": "r"}]}',
}


@pytest.mark.parametrize("reply", PLANS.values(), ids=PLANS)
def test_plans_are_found(reply: str) -> None:
    assert read_plans(reply) == [PlanText("t", "r")]


def test_plans_one_a_line_and_plans_as_words() -> None:
    lines = '{"title": "a", "line": "7"}\n{"title": 2, "line": 3.0, "site": 4}\n'
    assert read_plans(lines) == [PlanText("a", "", line=7), PlanText("2", "", "4", 3)]
    odd = '{"title": "a", "line": "\u00b2", "site": "S\u00b2", "experiences": {"E1": 1}}'
    assert read_plans(odd) == [PlanText("a", "")]
    assert read_plans('["hoist the load", "x"]') == [PlanText("hoist the load", "hoist the load")]
    many = json.dumps({"plans": [{"title": f"t{n}"} for n in range(200)]})
    assert len(read_plans(many)) == 200
    broken = '{"plans": [{"title": "a",}, {"title": "b",}, {"title": "c"}]}'
    assert [p.title for p in read_plans(broken)] == ["a", "b", "c"]


def test_a_planner_may_have_no_plans() -> None:
    assert read_plans('Nothing left: {"plans": []}') == []


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
