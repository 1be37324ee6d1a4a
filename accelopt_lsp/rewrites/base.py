"""What a rewrite is: a small named program transformation that keeps a kernel's outputs."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from attrs import define, field, frozen

from accelopt_lsp.nki.arguments import KernelArguments
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.python_source import parse_python
from accelopt_lsp.nki.targets import Target, get_target

if TYPE_CHECKING:
    from accelopt_lsp.analysis.kernels import KernelSource
    from accelopt_lsp.rewrites.model import KernelModel
    from accelopt_lsp.rewrites.source import SourceText


class NotApplicable(Exception):
    """A rewrite cannot be applied here; the message says why."""


@frozen(slots=True)
class Site:
    """One place where a rewrite applies, with one choice of its parameters.

    Attributes:
        rewrite: name of the rewrite.
        id: stable within a text: rewrite, place and parameters.
        description: what would be changed, one sentence.
        parameters: JSON-able; ``apply_named`` finds the site again by them.
        benefit: what to expect, with figures where shapes are known.
        line: from 1.
        rank: sites of one rewrite, best first, count from 0.
    """

    rewrite: str
    id: str
    description: str
    parameters: Mapping[str, Any]
    benefit: str
    line: int
    rank: int = 0


@frozen(slots=True)
class Description:
    """A rewrite in words, for planners, prompts and hovers.

    Attributes:
        title: short name for people.
        strategy: when it helps and why.
        before, after: pseudocode.
        bottlenecks: bounds (``tensor``, ``vector``, ``scalar``, ``dma``, ``latency``) it relieves.
        instructions: instruction ids it is about.
        pattern: the loop pattern it needs.
    """

    title: str
    strategy: str
    before: str
    after: str
    bottlenecks: tuple[str, ...] = ()
    instructions: tuple[str, ...] = ()
    pattern: str = ""

    def markdown(self) -> str:
        return (
            f"**{self.title}**\n\n{self.strategy}\n\nBefore:\n```python\n{self.before}\n```\n"
            f"After:\n```python\n{self.after}\n```"
        )


@define(slots=False)
class RewriteContext:
    """A kernel as a rewrite sees it: text, syntax tree, shapes, target.

    Attributes:
        text: the whole file.
        tree: its syntax tree.
        function: the kernel's definition.
        kernel: what discovery found out about it.
        arguments: what it is called with; shapes come from here.
        target: hardware generation.
    """

    text: str
    tree: ast.Module
    function: ast.FunctionDef
    kernel: KernelSource
    arguments: KernelArguments
    target: Target
    _cache: dict[str, Any] = field(factory=dict, init=False, repr=False)

    @classmethod
    def from_text(
        cls,
        text: str,
        function: str | None,
        arguments: KernelArguments | None = None,
        target: Target | str | None = None,
    ) -> RewriteContext:
        """Parse a file and find the kernel.

        Args:
            function: qualified or plain name; None takes the first kernel.
            arguments: specs by parameter; without them shapes stay unknown.
            target: trn1 for legacy and trn2 for current kernels if left out.

        Raises:
            NotApplicable: the text does not parse, or has no such kernel.
        """
        from accelopt_lsp.analysis.kernels import find_kernels, kernel_named
        from accelopt_lsp.analysis.syntax import Document

        try:
            tree = parse_python(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise NotApplicable(f"the file does not parse: {error}") from None
        kernel = kernel_named(find_kernels(Document.parse(text)), function)
        if kernel is None:
            raise NotApplicable(f"no kernel named {function!r}" if function else "no kernel")
        node = next(
            (
                n
                for n in ast.walk(tree)
                if isinstance(n, ast.FunctionDef)
                and n.name == kernel.name
                and n.lineno == kernel.line
            ),
            None,
        )
        if node is None:
            raise NotApplicable(f"{kernel.qualname} is not an ordinary function")
        arguments = arguments or KernelArguments()
        if target is None:
            default = "trn1" if kernel.dialect is Dialect.LEGACY else "trn2"
            target = arguments.target or default
        resolved = target if isinstance(target, Target) else get_target(target)
        return cls(text, tree, node, kernel, arguments, resolved)

    @property
    def dialect(self) -> Dialect:
        return self.kernel.dialect

    @property
    def legacy(self) -> bool:
        return self.dialect is Dialect.LEGACY

    @cached_property
    def source(self) -> SourceText:
        from accelopt_lsp.rewrites.source import SourceText

        return SourceText(self.text)

    @cached_property
    def model(self) -> KernelModel:
        from accelopt_lsp.rewrites.model import build_model

        return build_model(self)

    @property
    def sbuf_budget(self) -> int:
        """Bytes per partition that tiles may take, reserved space left out."""
        reserved = self.target.get("sbuf_reserved_bytes") or 0
        return self.target.integer("sbuf_partition_bytes") - int(reserved)


class Rewrite(Protocol):
    """A source rewrite. ``apply`` keeps the kernel's outputs or raises NotApplicable."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def tags(self) -> tuple[str, ...]: ...

    @property
    def description(self) -> Description: ...

    def find(self, context: RewriteContext) -> tuple[Site, ...]:
        """Places and parameter choices, best first; empty if there is none."""
        ...

    def apply(self, context: RewriteContext, site: Site) -> str:
        """The whole new text.

        Raises:
            NotApplicable: the site does not exist in this text, or the change would be doubtful.
        """
        ...
