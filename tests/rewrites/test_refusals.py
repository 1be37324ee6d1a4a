"""Where a rewrite would change what a kernel computes, it says so and changes nothing."""

from __future__ import annotations

import pytest

from accelopt_lsp.nki.arguments import KernelArguments, parse_spec
from accelopt_lsp.rewrites import NotApplicable, apply_named, find_sites

LEGACY = """\
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

@nki.jit
def kernel(x, w):
"""
CURRENT = """\
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(x, w):
"""
SHAPES = {"x": "f32[256,512]", "w": "f32[256,1024]"}


def attempt(rewrite: str, head: str, body: str, shapes: dict[str, str] | None = None) -> str:
    values = {k: parse_spec(v) for k, v in (shapes or SHAPES).items()}
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    return apply_named(head + lines, "kernel", rewrite, {}, KernelArguments(values=values))


MATMUL = """
out = nl.ndarray((512, 1024), dtype=nl.float32, buffer=nl.shared_hbm)
for m in nl.affine_range(4):
    for n in nl.affine_range(2):
        acc = nl.zeros((128, 512), nl.float32, buffer=nl.psum)
        for k in nl.affine_range(2):
            a = nl.load(x[k * 128:(k + 1) * 128, m * 128:(m + 1) * 128])
            b = nl.load(w[k * 128:(k + 1) * 128, n * 512:(n + 1) * 512])
            acc += nl.matmul(a, b, transpose_x=True)
        nl.store(out[m * 128:(m + 1) * 128, n * 512:(n + 1) * 512], value=nl.copy(acc))
return out
"""


def test_the_plain_product_can_be_blocked() -> None:
    assert "b_block[k, :, :] = nl.load(" in attempt("block-matmul", LEGACY, MATMUL)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("transpose_x=True)", "transpose_x=False)", "transpose"),
        ("            a = ", "            d = nl.exp(acc)\n            a = ", "more than multiply"),
        ("        nl.store", "        y = helper(acc)\n        nl.store", "not understood"),
        ("out[m * 128", "out[unknown * 128", "share"),
        ("acc += nl.matmul(a,", "c = nl.exp(a)\n            acc += nl.matmul(c,", "computed"),
        ("            b = ", "            a[...] = nl.exp(a)\n            b = ", "changed"),
        ("(m + 1) * 128])\n            b", "(m + 1) * 128], mask=m < 3)\n            b", "masked"),
        (
            "m * 128:(m + 1) * 128])\n            b",
            "m * 96:m * 96 + 128])\n            b",
            "adjacent",
        ),
        ("out[m * 128:(m + 1) * 128", "out[m * 64:m * 64 + 128", "share"),
    ],
    ids=[
        "transpose",
        "extra-work",
        "opaque",
        "unknown-index",
        "computed",
        "changed",
        "masked",
        "overlapping-loads",
        "overlapping-stores",
    ],
)
def test_other_products_are_left_alone(old: str, new: str, reason: str) -> None:
    body = MATMUL.replace(old, new)
    assert body != MATMUL
    with pytest.raises(NotApplicable, match=reason):
        attempt("block-matmul", LEGACY, body)


def test_a_value_carried_from_tile_to_tile_stops_blocking() -> None:
    body = MATMUL.replace(
        "for m in", "total = nl.zeros((128, 512), nl.float32, buffer=nl.sbuf)\nfor m in"
    ).replace("        nl.store", "        total += acc\n        nl.store")
    with pytest.raises(NotApplicable):
        attempt("block-matmul", LEGACY, body)


def test_unknown_shapes_stop_blocking() -> None:
    body = MATMUL.replace("range(4)", "range(x.shape[1] // 128)")
    with pytest.raises(NotApplicable):
        apply_named(
            LEGACY + "".join(f"    {line}\n" for line in body.strip().splitlines()),
            "kernel",
            "block-matmul",
        )


def test_blocks_that_do_not_fit_are_refused() -> None:
    values = KernelArguments(values={k: parse_spec(v) for k, v in SHAPES.items()})
    text = LEGACY + "".join(f"    {line}\n" for line in MATMUL.strip().splitlines())
    with pytest.raises(NotApplicable, match="do not fit"):
        apply_named(
            text,
            "kernel",
            "block-matmul",
            {"block_m": 3, "block_n": 1, "resident": "stationary"},
            values,
        )


HOIST = """
out = nl.ndarray((256, 512), dtype=nl.float32, buffer=nl.shared_hbm)
for i in nl.affine_range(2):
    t = nl.load(x[i * 128:(i + 1) * 128, 0:512])
    g = nl.load(w[0:128, 0:512])
    y = nl.multiply(t, g)
    nl.store(out[i * 128:(i + 1) * 128, 0:512], value=y)
return out
"""


def test_an_invariant_load_moves() -> None:
    text = attempt("hoist-load", LEGACY, HOIST)
    assert text.index("nl.load(w") < text.index("for i")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y = nl.multiply(t, g)", "g[...] = nl.multiply(t, g)\n    y = nl.copy(g)"),
        ("nl.load(w[0:128", "nl.load(out[0:128"),
        ("nl.load(w[0:128, 0:512])", "nl.load(w[i * 128:(i + 1) * 128, 0:512])"),
        ("nl.load(w[0:128, 0:512])", "nl.load(w[0:128, 0:512], mask=(i < 1))"),
        ("g = nl.load(w[0:128, 0:512])", "if i == 1:\n        g = nl.load(w[0:128, 0:512])"),
        ("y = nl.multiply(t, g)", "y = nl.multiply(t, g)\n    g = nl.exp(y)\n    y = nl.add(y, g)"),
    ],
    ids=["changed", "written-source", "moving", "masked", "guarded", "rebound"],
)
def test_other_loads_stay(old: str, new: str) -> None:
    body = HOIST.replace(old, new)
    assert body != HOIST
    with pytest.raises(NotApplicable):
        attempt("hoist-load", LEGACY, body)


def test_tiles_that_do_not_fit_stay() -> None:
    body = HOIST.replace("0:512", "0:65536").replace("(256, 512)", "(256, 65536)")
    with pytest.raises(NotApplicable, match="bytes per partition"):
        attempt("hoist-load", LEGACY, body, {"x": "f32[256,65536]", "w": "f32[256,65536]"})


WIDEN = """
TILE = 128
out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
for j in range(512 // TILE):
    t = nl.ndarray((128, TILE), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x[0:128, j * TILE:(j + 1) * TILE])
    y = nl.ndarray((128, TILE), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=y, op=nl.exp, data=t)
    nisa.dma_copy(dst=out[0:128, j * TILE:(j + 1) * TILE], src=y)
return out
"""


def test_an_elementwise_loop_widens() -> None:
    assert "TILE = 512" in attempt("widen-tile", CURRENT, WIDEN)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x[0:128, j * TILE:(j + 1) * TILE]", "x[0:128, j * 64:j * 64 + TILE]"),
        ("x[0:128, j * TILE:(j + 1) * TILE]", "x[0:128, 0:TILE]"),
        (
            "nisa.activation(dst=y, op=nl.exp, data=t)",
            "r = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)\n"
            "    nisa.tensor_reduce(dst=r, op=nl.add, data=t, axis=1)\n"
            "    nisa.tensor_scalar(dst=y, data=t, op0=nl.multiply, operand0=r)",
        ),
        (
            "nisa.activation(dst=y, op=nl.exp, data=t)",
            "nisa.tensor_scalar(dst=y, data=t, op0=nl.add, operand0=j)",
        ),
        (
            "(128, TILE), dtype=nl.float32, buffer=nl.sbuf)\n    nisa.act",
            "(128, 128), dtype=nl.float32, buffer=nl.sbuf)\n    nisa.act",
        ),
        ("for j in", "check(TILE)\nfor j in"),
    ],
    ids=["overlapping", "same-tile", "reduction", "loop-value", "fixed-tile", "other-use"],
)
def test_other_loops_keep_their_tiles(old: str, new: str) -> None:
    body = WIDEN.replace(old, new)
    assert body != WIDEN
    if "check(TILE)" in new:
        assert "TILE = 512" in attempt("widen-tile", CURRENT, body)
        return
    with pytest.raises(NotApplicable):
        attempt("widen-tile", CURRENT, body)


def test_a_tile_size_of_the_whole_module_stays() -> None:
    text = CURRENT.replace("@nki.jit", "TILE = 128\n\ndef size():\n    return TILE\n\n@nki.jit")
    with pytest.raises(NotApplicable):
        attempt("widen-tile", text, WIDEN.replace("TILE = 128\n", ""))


FUSE = """
out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
t = nl.load(x[0:128, 0:512])
u = nl.load(w[0:128, 0:512])
s = nl.multiply(t, 2.0)
y = nl.add(s, u)
nl.store(out[0:128, 0:512], value=y)
return out
"""


def test_a_scalar_and_a_tile_fuse() -> None:
    assert "scalar_tensor_tensor" in attempt("fuse-instructions", LEGACY, FUSE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y = nl.add(s, u)", "y = nl.add(s, u)\ny = nl.subtract(y, s)"),
        ("y = nl.add(s, u)", "t[...] = nl.exp(u)\ny = nl.add(s, u)"),
        ("y = nl.add(s, u)", "y = nl.add(s, u, mask=(nl.arange(128)[:, None] < 64))"),
        ("y = nl.add(s, u)", "k = s.shape[1]\ny = nl.add(s, u)"),
        ("nl.multiply(t, 2.0)", "nl.multiply(t, 2.0, dtype=nl.int32)"),
        ("y = nl.add(s, u)", "y = nl.add(s[0:128, 0:256], u[0:128, 0:256])"),
    ],
    ids=["two-readers", "changed-input", "mask", "shape", "integers", "part"],
)
def test_other_neighbours_stay_apart(old: str, new: str) -> None:
    body = FUSE.replace(old, new)
    assert body != FUSE
    with pytest.raises(NotApplicable):
        attempt("fuse-instructions", LEGACY, body)


def test_bad_input_never_crashes() -> None:
    for text in ("", "def f(:", "x = 1\n", LEGACY, "import nki\n@nki.jit\nasync def f(x): pass\n"):
        assert find_sites(text, None) == ()
    with pytest.raises(NotApplicable, match="unknown rewrite"):
        apply_named(LEGACY + "    return x\n", "kernel", "no-such-rewrite")
    with pytest.raises(NotApplicable, match="no kernel"):
        apply_named(LEGACY + "    return x\n", "other", "hoist-load")
