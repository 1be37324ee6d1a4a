"""The documentation speaks of what exists: links, commands, options, settings, rules."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import click
import pytest
from attrs import fields

from accelopt_lsp.cli import cli
from accelopt_lsp.rewrites import catalogue
from accelopt_lsp.workbench.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/*.md"),
    *ROOT.glob("examples/*.md"),
]
pages = pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"(?:^|`|\s{4})accelopt ([a-z]+)((?: [^`\n#]*)?)", re.MULTILINE)
_OPTION = re.compile(r"(?<!\S)(--[a-z][a-z-]+)")
_PATH = re.compile(r"`((?:accelopt_lsp|docs|examples|tests|editors)/[\w./-]+)`")


def commands() -> dict[str, click.Command]:
    return dict(cli.commands)


@pages
def test_links_lead_to_files(page):
    for target in _LINK.findall(_FENCED.sub("", page.read_text("utf-8"))):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (page.parent / target).exists(), target


@pages
def test_paths_in_the_text_exist(page):
    for name in _PATH.findall(page.read_text("utf-8")):
        # Paths of an installed or built tree are named where they come about.
        if not name.endswith(".vsix"):
            assert (ROOT / name).exists(), name


@pages
def test_commands_and_options_exist(page):
    for name, rest in _COMMAND.findall(page.read_text("utf-8")):
        assert name in commands(), f"accelopt {name}"
        command = commands()[name]
        known = {o for c in _tree(command) for p in c.params for o in p.opts}
        if name == "run":
            continue
        for option in _OPTION.findall(rest):
            assert option in known, f"accelopt {name} {option}"


def _tree(command: click.Command) -> list[click.Command]:
    """A command and its subcommands."""
    below = command.commands.values() if isinstance(command, click.Group) else ()
    return [command, *(c for sub in below for c in _tree(sub))]


def test_the_page_of_rules_is_current():
    spec = importlib.util.spec_from_file_location("build_rules", ROOT / "docs" / "build_rules.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    current = (ROOT / "docs" / "rules.md").read_text("utf-8")
    assert module.page() == current, "run python docs/build_rules.py"


def test_every_setting_is_documented():
    page = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    for name in (f.name.replace("_", "-") for f in fields(Settings)):
        assert f"`{name}`" in page, name


def test_every_setting_of_the_extension_that_the_server_reads_is_documented():
    page = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    package = json.loads((ROOT / "editors/vscode/package.json").read_text("utf-8"))
    properties = package["contributes"]["configuration"]
    sections = properties if isinstance(properties, list) else [properties]
    only_in_the_extension = {"python", "server.command", "trace.server"}
    for section in sections:
        for name in section["properties"]:
            short = name.removeprefix("accelopt.")
            if short not in only_in_the_extension:
                assert f"`{short}`" in page, name


def test_every_rewrite_is_documented():
    page = (ROOT / "docs" / "optimization.md").read_text("utf-8")
    for rewrite in catalogue():
        assert f"| `{rewrite.name}` |" in page, rewrite.name
