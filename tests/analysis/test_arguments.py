"""Where a kernel's arguments come from, in order of precedence."""

from __future__ import annotations

import pytest

from accelopt_lsp.analysis.arguments import directive_template, discover_arguments
from accelopt_lsp.analysis.directives import (
    directive_diagnostics,
    find_suppressions,
    parse_directive,
)
from accelopt_lsp.analysis.kernels import find_kernels
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.arguments import LiteralSpec, NameSpec, TensorSpec, TupleSpec, parse_spec

HEAD = "import nki\nimport nki.language as nl\nimport nki.typing as nt\nimport numpy as np\n\n"


def discover(body: str, path=None, **overrides: str):
    document = Document.parse(HEAD + body)
    kernel = find_kernels(document)[0]
    given = {name: parse_spec(text) for name, text in overrides.items()}
    return discover_arguments(document, kernel, path=path, overrides=given)


def shown(arguments) -> dict[str, str]:
    return {name: str(spec) for name, spec in arguments.values.items()}


PLACES = [
    "# accelopt: {d}\n@nki.jit\ndef kernel(x, eps):\n    return x\n",
    "# accelopt: {d}\n\n# more\n@nki.jit\ndef kernel(x, eps):\n    return x\n",
    "@nki.jit\n# accelopt: {d}\ndef kernel(x, eps):\n    return x\n",
    "@nki.jit\ndef kernel(x, eps):\n    # accelopt: {d}\n    return x\n",
    '@nki.jit\ndef kernel(x, eps):\n    """Words."""\n    # accelopt: {d}\n    return x\n',
]


@pytest.mark.parametrize("place", PLACES, ids=range(len(PLACES)))
def test_directive_places(place):
    text = place.format(d="x=f32[4096, 1024]~N(0, 2) eps=1e-5 target=gen2 grid=(2,4)")
    found = discover(text)
    assert shown(found) == {"x": "f32[4096,1024]~N(0,2)", "eps": "1e-05"}
    assert found.target == "trn1"
    assert found.grid == (2, 4)
    assert found.complete
    assert set(found.origins.values()) == {"directive"}


def test_a_directive_further_up_belongs_to_something_else():
    text = (
        "# accelopt: x=f32[1,1]\nSIZE = 3\n\n\n@nki.jit\ndef kernel(x):\n    y = x\n"
        "    # accelopt: x=f32[2,2]\n    return y\n"
    )
    assert discover(text).missing == ("x",)


def test_all_kinds_of_specs_in_one_directive():
    found = parse_directive(
        "a=bf16[2,3] b=(f32[1], 2) c=nl.bfloat16 d='two words' e=None reference='r e f.py'"
    )
    assert found.problems == ()
    assert found.reference == "r e f.py"
    assert isinstance(found.values["a"], TensorSpec)
    assert isinstance(found.values["b"], TupleSpec)
    assert isinstance(found.values["c"], NameSpec)
    assert found.values["d"] == LiteralSpec("two words")


@pytest.mark.parametrize("text", ["x", "x=", "=f32[1]", "x=f99[1]", "grid=0", "target=trn9", "((("])
def test_directives_that_cannot_be_read_name_the_problem(text):
    found = parse_directive(text, line=7)
    assert found.values == {}
    ((line, _, message),) = found.problems
    assert line == 7
    assert message


def test_problems_point_at_their_words():
    text = HEAD + "# accelopt: y=f32[1]\n@nki.jit\ndef kernel(x):\n    return x\n"
    document = Document.parse(text)
    (found,) = directive_diagnostics(document, find_kernels(document)[0])
    assert "no parameter 'y'" in found.message
    assert (found.span.start.line, found.span.start.column) == (6, 13)


def test_precedence():
    text = (
        "# accelopt: x=f32[1,1]\n@nki.jit\n"
        "def kernel(x, y: nt.tensor[2, 2], z: nt.tensor[3, 3] = None):\n    return x\n"
    )
    assert shown(discover(text)) == {"x": "f32[1,1]", "y": "f32[2,2]", "z": "f32[3,3]"}
    given = discover(text, x="bf16[8,8]")
    assert shown(given)["x"] == "bf16[8,8]"
    assert given.origins["x"] == "given"


def test_annotations_with_module_constants_and_types():
    text = (
        "N = 4 * 128\n\n\n@nki.jit\n"
        "def kernel(x: nt.tensor[N, N // 2], y: nt.tensor[[N, 8], nl.bfloat16], z: int):\n"
        "    return x\n"
    )
    found = discover(text)
    assert shown(found) == {"x": "f32[512,256]", "y": "bf16[512,8]"}
    assert found.missing == ("z",)


ASSERTS = [
    "assert x.shape == (256, 512)",
    "assert tuple(x.shape) == (M, N)",
    "m, n = x.shape\n    assert m == 256 and n == N",
    "assert x.shape[0] == M\n    assert x.shape[1] == 512\n    a, b = x.shape",
    "P = 128\n    rows, columns = x.shape\n    assert rows == 2 * P\n    assert columns == 4 * P",
]


@pytest.mark.parametrize("body", ASSERTS, ids=range(len(ASSERTS)))
def test_asserts_and_unpackings(body):
    text = f"M, N = 256, 512\n\n\n@nki.jit\ndef kernel(x):\n    {body}\n    return x\n"
    found = discover(text)
    assert shown(found) == {"x": "f32[256,512]"}
    assert "assert" in found.origins["x"]
    assert "assumed" in found.origins["x"]


TYPED = [
    ("assert x.shape == (256, 512)\n    assert x.dtype == nl.bfloat16", "bf16[256,512]"),
    ("assert x.shape == (256, 512) and x.dtype in (nl.float16, nl.bfloat16)", "f16[256,512]"),
    ("assert x.shape == (M, N), x.dtype == np.int32", "f32[256,512]"),
    ("assert x.ndim == 2\n    assert x.shape[0] == M\n    assert x.shape[1] == N", "f32[256,512]"),
    ("kernel_assert(len(x.shape) == 1, 'one')\n    kernel_assert(x.shape[0] == N, '')", "f32[512]"),
    ("n = x.shape[1]\n    m, _ = x.shape\n    assert n == N and m == M", "f32[256,512]"),
]


@pytest.mark.parametrize(("body", "spec"), TYPED)
def test_types_ranks_and_checks_by_a_function(body, spec):
    text = f"M, N = 256, 512\n\n\n@nki.jit\ndef kernel(x):\n    {body}\n    return x\n"
    found = discover(text)
    assert shown(found) == {"x": spec}
    assert ("assumed" in found.origins["x"]) == spec.startswith("f32")


def test_sizes_and_types_that_agree_with_others():
    text = (
        "@nki.jit\ndef kernel(a, b, c):\n    k, m = a.shape\n    k_, n = b.shape\n"
        "    assert k == k_ and m == 128 and n == c.shape[1]\n    assert b.shape == (64, 512)\n"
        "    assert c.ndim == 2 and c.shape[0] == m\n"
        "    assert a.dtype == b.dtype == c.dtype\n    assert c.dtype == nl.float16\n    return a\n"
    )
    found = discover(text)
    assert shown(found) == {"a": "f16[64,128]", "b": "f16[64,512]", "c": "f16[128,512]"}
    assert set(found.origins.values()) == {"assert"}


def test_equal_shapes_and_what_stays_unknown():
    text = (
        "@nki.jit\ndef kernel(q, k, v, w):\n    d, s = q.shape\n"
        "    assert q.shape == k.shape == v.shape\n    assert d == 128\n    assert s % 128 == 0\n"
        "    assert v.shape == (128, 512)\n    return q\n"
    )
    found = discover(text)
    assert shown(found) == dict.fromkeys("qkv", "f32[128,512]")
    assert found.missing == ("w",)


CALLS = [
    "a = np.zeros((8, 16), dtype=np.float16)\nout = kernel(a, 3)\n",
    "def main():\n    size = 8\n    a = np.random.rand(size, 2 * size).astype(np.float16)\n"
    "    kernel(a, n=3)\n",
    "def main():\n    for _ in range(3):\n        kernel[2](np.ones((8, 16), np.float16), 3)\n",
    "kernel(nt.tensor[[8, 16], nl.float16], 3)\n",
    "nki.simulate_kernel(kernel, np.zeros((8, 16), np.float16), 3)\n",
    "nki.simulate_kernel(kernel[2], np.zeros((8, 16), np.float16), n=3)\n",
    "nki.benchmark(iters=10)(kernel)(np.zeros((8, 16), np.float16), 3)\n",
]


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_call_sites(call):
    found = discover(f"@nki.jit\ndef kernel(x, n):\n    return x\n\n\n{call}")
    assert shown(found) == {"x": "f16[8,16]", "n": "3"}
    assert found.origins["x"].startswith("call on line")


REFERENCE = """import numpy as np

M, K = 256, 512


def get_inputs():
    x = np.random.normal(loc=0, scale=1.0, size=(M, K)).astype(np.float32)
    w = np.abs(np.random.randn(K, M)).astype(np.float16)
    return [x, w, 1e-5]
"""
TRANSFORM = """

def transform_to_nki_inputs(inputs):
    prepared = []
    prepared.append(np.reshape(inputs[0], (2, 128, K)))
    prepared.append(np.ascontiguousarray(inputs[1].T))
    prepared.append(inputs[2])
    return prepared
"""
KERNEL = "@nki.jit\ndef kernel(x, w, eps):\n    return x\n"


@pytest.mark.parametrize(
    "name",
    [
        "file_reference.py",
        "kernel_reference.py",
        "reference.py",
        "references/file_reference.py",
        "references/kernel_reference.py",
    ],
)
def test_references_beside_the_kernel(tmp_path, name):
    reference = tmp_path / name
    reference.parent.mkdir(exist_ok=True)
    reference.write_text(REFERENCE + TRANSFORM, "utf-8")
    found = discover(KERNEL, path=tmp_path / "file.py")
    assert found.reference == name
    assert shown(found) == {"x": "f32[2,128,512]", "w": "f16[256,512]", "eps": "1e-05"}
    assert found.origins["x"] == f"reference {name}"


def test_reference_named_by_directive_and_without_transform(tmp_path):
    (tmp_path / "other.py").write_text(REFERENCE, "utf-8")
    found = discover(f"# accelopt: reference=other.py\n{KERNEL}", path=tmp_path / "file.py")
    assert found.reference == "other.py"
    assert shown(found)["w"] == "f16[512,256]"


def test_reference_of_a_file_with_several_kernels_is_looked_up_by_function(tmp_path):
    (tmp_path / "file_reference.py").write_text(REFERENCE, "utf-8")
    two = KERNEL + "\n\n@nki.jit\ndef second(y):\n    return y\n"
    assert discover(two, path=tmp_path / "file.py").reference is None


@pytest.mark.parametrize(
    "text", ["", "def get_inputs(:", "def get_inputs():\n    while True: pass\n", "\x00", "x = 1"]
)
def test_references_that_tell_nothing(tmp_path, text):
    (tmp_path / "file_reference.py").write_text(text, "utf-8")
    found = discover(KERNEL, path=tmp_path / "file.py")
    assert found.missing == ("x", "w", "eps")


def test_template_reads_as_a_directive():
    document = Document.parse(HEAD + "@nki.jit\ndef kernel(self, x, y, eps=1e-5):\n    return x\n")
    template = directive_template(find_kernels(document)[0])
    found = parse_directive(template.removeprefix("# accelopt:"))
    assert found.problems == ()
    assert set(found.values) == {"x", "y"}


def test_suppressions():
    document = Document.parse(
        "x = 1  # accelopt: ignore[P10, R023]\n# accelopt: ignore-file[P06]\n"
        "y = 2  # accelopt: ignore\n"
    )
    found = find_suppressions(document)
    assert found.by_line == {1: frozenset({"P10", "R023"}), 3: frozenset()}
    assert found.file == frozenset({"P06"})
