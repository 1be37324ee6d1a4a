"""Write ``docs/rules.md`` from the rules' own documentation.

Usage: ``python docs/build_rules.py`` writes the page; ``--check`` only says whether it is current.
"""

from __future__ import annotations

import sys
from pathlib import Path

from accelopt_lsp.analysis.rules import all_rules, explain
from accelopt_lsp.nki.rules import Decided, rule_table

PAGE = Path(__file__).with_name("rules.md")
HEAD = """\
# Rules

This page is generated from the rules' own documentation by `python docs/build_rules.py`;
`accelopt explain CODE` prints one of them. Codes beginning with R are about what hardware or
compiler reject, C about Python that simulates and that the NKI compiler refuses or does not
promise to take, P about what is slow, M about what changed from the legacy dialect to the current
one and between its versions, A about the arguments that a kernel is analyzed with, D about
directives, S about syntax. The severity is the usual one; a finding may have a lower one,
for example where it costs little time.

A rule on what is rejected is decided by reading a kernel (`accelopt check`, the editor), by running
it (`profile`, `optimize`, `run`), or both; the tables at the end list those that only running
decides, and those of AWS's documentation that neither decides. A run that breaks a rule ends with
`KernelRejected`: the code, the line, the figures that broke it, and what to do.

Switch a rule off on one line with `# accelopt: ignore[CODE]`, in a file with
`# accelopt: ignore-file[CODE]`, in a project with `ignore = ["CODE"]` under `[tool.accelopt]`.
"""


def page() -> str:
    """The whole page as Markdown."""
    rules = sorted(all_rules(), key=lambda rule: rule.code)
    contents = [
        "| code | name | severity |",
        "|---|---|---|",
        *(f"| [{r.code}](#{anchor(r)}) | {r.name} | {r.severity} |" for r in rules),
    ]
    sections = []
    for rule in rules:
        title, _, body = explain(rule.code).strip().partition("\n")
        if not title.startswith("#"):
            title, body = f"# {rule.code}: {rule.name}", f"{title}\n{body}"
        sections.append(f'<a id="{anchor(rule)}"></a>\n#{title}\n{demoted(body)}')
    body = [HEAD, *contents, "", "\n\n".join(sections), "", *_run(), "", *_undecided()]
    return "\n".join(body).rstrip() + "\n"


def _run() -> list[str]:
    """Rules that only a run decides."""
    rows = [
        f"| {e.code} | {e.name} | {', '.join(e.dialects)} | {e.what} {e.why} | {e.instead} |"
        for e in rule_table().values()
        if e.decided is Decided.EXECUTION
    ]
    return [
        "## Decided by running a kernel",
        "",
        "| code | name | dialects | what is rejected | use instead |",
        "|---|---|---|---|---|",
        *(row.replace("  |", " |").replace(" . ", ". ") for row in rows),
    ]


def _undecided() -> list[str]:
    """Rules that nothing here decides, and why."""
    rows = [
        f"| {e.code} | {e.what} | {e.reason} |"
        for e in rule_table().values()
        if e.decided is Decided.NOBODY
    ]
    return [
        "## Not decided",
        "",
        "Rules of AWS's documentation that are accepted here, or that another rule covers.",
        "",
        "| code | what it is about | why |",
        "|---|---|---|",
        *rows,
    ]


def anchor(rule: object) -> str:
    """Target of links to a rule."""
    return str(rule.code).lower()  # type: ignore[attr-defined]


def demoted(body: str) -> str:
    """The text with its headings one level lower, code blocks left alone."""
    lines, fenced = [], False
    for line in body.splitlines():
        fenced ^= line.lstrip().startswith("```")
        lines.append(f"#{line}" if line.startswith("#") and not fenced else line)
    return "\n".join(lines)


def main() -> int:
    text = page()
    if "--check" in sys.argv[1:]:
        current = PAGE.is_file() and PAGE.read_text("utf-8") == text
        if not current:
            print("docs/rules.md is out of date: run python docs/build_rules.py", file=sys.stderr)
        return 0 if current else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
