"""Kernels are found under any import alias, nested, as methods, and by call."""

from __future__ import annotations

import pytest

from accelopt_lsp.analysis.kernels import (
    call_sites,
    detect_dialect,
    find_kernels,
    kernel_at_line,
    kernel_named,
)
from accelopt_lsp.analysis.names import find_aliases
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.reference.paths import canonical_path

FORMS = [
    ("import neuronxcc.nki as nki", "@nki.jit", Dialect.LEGACY),
    ("import nki", "@nki.jit", Dialect.CURRENT),
    ("from nki import jit", "@jit", Dialect.CURRENT),
    ("from nki import jit as compile_it", "@compile_it", Dialect.CURRENT),
    ("from neuronxcc import nki", "@nki.jit(mode='torchxla')", Dialect.LEGACY),
    ("from neuronxcc.nki import baremetal", "@baremetal(warmup=5)", Dialect.LEGACY),
    ("import neuronxcc.nki as n", "@n.benchmark(iters=3)", Dialect.LEGACY),
    ("import neuronxcc.nki as nki", "@nki.profile(working_directory='x')", Dialect.LEGACY),
    ("import nki as neuron", "@neuron.jit(platform_target='trn3')", Dialect.CURRENT),
    ("import neuronxcc", "@neuronxcc.nki.jit", Dialect.LEGACY),
    ("from torch_neuronx import nki_jit", "@nki_jit()", Dialect.LEGACY),
    ("import nki\nimport functools", "@functools.partial(nki.jit, mode='x')", Dialect.CURRENT),
    ("import nki\njit = nki.jit", "@jit", Dialect.CURRENT),
]


@pytest.mark.parametrize(("imports", "decorator", "dialect"), FORMS, ids=lambda v: str(v)[:30])
def test_decorators(imports, decorator, dialect):
    text = f"{imports}\n\n\n{decorator}\ndef kernel(x, y=1, *, eps: float = 1e-5):\n    return x\n"
    (kernel,) = find_kernels(Document.parse(text))
    assert kernel.name == "kernel"
    assert kernel.dialect is dialect
    assert [(p.name, p.default, p.kind) for p in kernel.parameters] == [
        ("x", None, "positional"),
        ("y", "1", "positional"),
        ("eps", "1e-5", "keyword"),
    ]
    assert kernel.parameters[2].annotation == "float"


def test_functions_without_an_entry_point_are_no_kernels():
    text = "import nki\nimport nki.language as nl\n\n\n@other\ndef f(x):\n    return nl.exp(x)\n"
    assert find_kernels(Document.parse(text)) == ()
    assert detect_dialect(Document.parse(text)) is Dialect.CURRENT


def test_nested_functions_and_methods():
    text = (
        "import nki\n\n\nclass Layer:\n    @nki.jit\n    def forward(self, x):\n"
        "        return x\n\n\n"
        "def make(size):\n    @nki.jit\n    def inner(x):\n        return x\n\n    return inner\n"
    )
    kernels = find_kernels(Document.parse(text))
    assert [k.qualname for k in kernels] == ["Layer.forward", "make.inner"]
    assert kernel_named(kernels, "inner") is kernels[1]
    assert kernel_at_line(kernels, 6) is kernels[0]
    assert kernel_at_line(kernels, 1) is None


def test_functions_handed_to_an_entry_point():
    text = (
        "from neuronxcc import nki\n\n\ndef plain(x):\n    return x\n\n\n"
        "fast = nki.benchmark(warmup=5)(plain)\nsimulated = nki.simulate_kernel(plain, 1)\n"
    )
    (kernel,) = find_kernels(Document.parse(text))
    assert kernel.name == "plain"


def test_several_decorators_and_comments_count_to_the_kernel():
    text = "import nki\n\n\n@first\n@nki.jit\n# note\ndef kernel(x):\n    return x\n"
    (kernel,) = find_kernels(Document.parse(text))
    assert (kernel.first_line, kernel.line, kernel.end_line) == (4, 7, 8)


def test_kernels_in_a_file_that_does_not_parse():
    text = "import nki\n\n\ndef broken(:\n    pass\n\n\n@nki.jit\ndef kernel(x):\n    return x\n"
    assert [k.name for k in find_kernels(Document.parse(text))] == ["kernel"]


def test_aliases_of_modules_and_names():
    aliases = find_aliases(
        Document.parse(
            "import neuronxcc.nki.language as nl\nimport neuronxcc.nki.isa as ops\n"
            "from neuronxcc.nki.language import par_dim as pd\nimport numpy\n"
            "from nki.language import *\n"
        )
    )
    assert aliases.canonical("nl.load") == "nl.load"
    assert aliases.canonical("ops.tensor_copy") == "nisa.tensor_copy"
    assert aliases.canonical("pd") == "nl.par_dim"
    assert aliases.canonical("numpy.float32") == "np.float32"
    assert aliases.canonical("exp") == "nl.exp"
    assert aliases.canonical("unheard_of") is None
    assert canonical_path("neuronxcc.nki.compiler.sbuf.alloc") == "ncc.sbuf.alloc"


def test_call_sites():
    text = (
        "import nki\n\n\n@nki.jit\ndef kernel(x, scale):\n    return x\n\n\n"
        "kernel(a, scale=2)\nkernel[4, 2](b, 1.0)\nother(kernel)\n"
    )
    document = Document.parse(text)
    (kernel,) = find_kernels(document)
    plain, launched = call_sites(document, kernel)
    assert plain.line == 9
    assert [document.node_text(n) for n in plain.positional] == ["a"]
    assert list(plain.keywords) == ["scale"]
    assert [document.node_text(n) for n in launched.grid] == ["4", "2"]
