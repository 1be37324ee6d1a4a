# ruff: noqa: E501 - one row of a table stays on one line
"""Every function and operator of ``nki.language`` against NumPy, in both dialects."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from accelopt_lsp.nki.apis import APIS
from accelopt_lsp.nki.dialects import Dialect, Role
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from tests.simulator.language_values import CASES, INPUTS, _normal

LEGACY, CURRENT = Dialect.LEGACY, Dialect.CURRENT
BOTH = (LEGACY, CURRENT)
KERNEL = """import {package} as nki
import {package}.isa as nisa
import {package}.language as nl
import numpy as np


@nki.jit
def kernel({parameters}):
{loads}
    result = {expression}
    out = nl.ndarray(result.shape, dtype=result.dtype, buffer=nl.shared_hbm)
    nl.store(out, {stored})
    return out
"""


def source(dialect: Dialect, expression: str, inputs: str) -> str:
    names = inputs.split()
    legacy = dialect is LEGACY
    loads = "\n".join(f"    {n} = nl.load({n}_in)" for n in names) or "    pass"
    stored = "result" if legacy else "nl.copy(result) if nl.is_psum(result.buffer) else result"
    return KERNEL.format(
        package=dialect.package,
        parameters=", ".join(f"{n}_in" for n in names),
        loads=loads,
        expression=expression,
        stored=stored,
    )


def _cases() -> list[Any]:
    return [
        pytest.param(dialect, expression, inputs, reference, id=f"{dialect}-{expression}")
        for expression, dialects, inputs, reference in CASES
        for dialect in dialects
    ]


@pytest.mark.parametrize(("dialect", "expression", "inputs", "reference"), _cases())
def test_function(run_text, dialect, expression, inputs, reference):
    target = "trn1" if dialect is LEGACY else "trn3" if "abs_m" in expression else "trn2"
    arrays = [INPUTS[n] for n in inputs.split()]
    outcome = run_text(source(dialect, expression, inputs), *arrays, target=target)
    result = outcome.as_returned()
    expected = np.asarray(reference(*arrays))
    assert result.shape == expected.shape
    if expected.dtype != np.float64:
        assert result.dtype == expected.dtype
    exact = result.dtype.kind in "iub"
    np.testing.assert_allclose(
        result.astype(np.float64),
        expected.astype(np.float64),
        rtol=0
        if exact
        else 1e-2
        if result.dtype == ml_dtypes.bfloat16
        else 2e-3
        if result.dtype == np.float16
        else 1e-4,
        atol=0 if exact else 2e-5,
    )


ELSEWHERE = {
    "nl.load": "every kernel here",
    "nl.store": "every kernel here",
    "nl.load_transpose2d": "test_transposing_load",
    "nl.loop_reduce": "test_loop_reduce",
    "nl.all_reduce": "test_all_reduce_of_one_program",
    "nl.atomic_rmw": "test_addressing",
    "nl.rand": "test_random_values",
    "nl.random_seed": "test_random_values",
}


def test_every_function_is_tried():
    """A function of the table without a row here, or in the list of other tests, is untested."""
    names = {a.name for a in APIS.values() if a.name.startswith("nl.")}
    tried = " ".join(c[0] for c in CASES)
    computes = {n for n in names if APIS[n].role in (Role.COMPUTE, Role.CREATION)}
    missing = {n for n in computes if f"{n}(" not in tried} - set(ELSEWHERE)
    assert missing <= {"nl.ndarray", "nl.empty_like"}


@pytest.mark.parametrize("dialect", BOTH)
def test_transposing_load(run_text, dialect):
    text = source(dialect, "nl.load_transpose2d(k_in)", "k").replace("    k = nl.load(k_in)\n", "")
    target = "trn1" if dialect is LEGACY else "trn2"
    result = run_text(text, INPUTS["k"], target=target).as_returned()
    np.testing.assert_array_equal(result, INPUTS["k"].T)


LOOPS = """import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import numpy as np


@nki.jit
def kernel(x):
    outer, middle, inner, rows, columns = x.shape
    out = nl.ndarray((middle, nl.par_dim(rows), columns), dtype=x.dtype, buffer=nl.shared_hbm)
    kept = nl.ndarray((middle, nl.par_dim(rows), columns), dtype=x.dtype, buffer=nl.sbuf)
    for repeat in {outermost}:
        for i in {outer}:
            tiles = []
            for m in {middle}:
                for j in {inner}:
                    tile = nl.load(x[i, m, j])
                    {reduce}
                {after}
        for m in range(middle):
            nl.store(out[m], {stored})
    return out
"""


@pytest.mark.parametrize("outermost", ["range(1)", "range(2)", "nl.affine_range(2)"])
@pytest.mark.parametrize("middle", ["range(3)", "nl.affine_range(3)", "[0, 1, 2]"])
@pytest.mark.parametrize("inner", ["range(2)", "nl.affine_range(2)"])
@pytest.mark.parametrize("place", ["variable", "tile"])
def test_loop_reduce(run_text, outermost, middle, inner, place):
    """One running value for each iteration of the loops that the call does not name."""
    variable = place == "variable"
    call = "nl.loop_reduce(tile, op=np.add, loop_indices=[i, j], dtype=nl.float32)"
    text = LOOPS.format(
        outermost=outermost,
        outer="nl.affine_range(2)",
        middle=middle,
        inner=inner,
        reduce=f"running = {call}" if variable else f"kept[m] = {call}",
        after="tiles.append(running)" if variable else "pass",
        stored="tiles[m]" if variable else "kept[m]",
    )
    x = _normal(2, 3, 2, 8, 16)
    result = run_text(text, x).as_returned()
    np.testing.assert_allclose(result, x.sum(axis=(0, 2)), rtol=1e-5, atol=1e-6)


def test_loop_reduce_under_a_condition(run_text):
    """Iterations that skip the call do not shift the values of others."""
    text = LOOPS.format(
        outermost="range(1)",
        outer="nl.affine_range(2)",
        middle="nl.affine_range(3)",
        inner="range(1)",
        reduce="running = nl.loop_reduce(tile, op=np.maximum, loop_indices=i) if m != i + 1 else 0",
        after="tiles.append(running)",
        stored="tiles[0]",
    )
    x = _normal(2, 3, 1, 8, 16)
    result = run_text(text, x).as_returned()
    np.testing.assert_array_equal(result[0], x[:, 0, 0].max(axis=0))


def test_loop_reduce_with_a_mask(run_text):
    text = """import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import numpy as np


@nki.jit
def kernel(x):
    out = nl.ndarray((8, 16), dtype=x.dtype, buffer=nl.shared_hbm)
    p, f = nl.mgrid[0:8, 0:16]
    for i in nl.affine_range(2):
        tile = nl.load(x[i])
        total = nl.loop_reduce(tile, np.add, i, mask=f < 10)
    nl.store(out[p, f], total[p, f], mask=f < 10)
    return out
"""
    x = _normal(2, 8, 16)
    result = run_text(text, x).as_returned()
    np.testing.assert_allclose(result[:, :10], x.sum(0)[:, :10], rtol=1e-6)


INPLACE = """import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import numpy as np


@nki.jit
def kernel(a_in, b_in):
    a, b = nl.load(a_in), nl.load(b_in)
    {statement}
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, a)
    return out
"""


@pytest.mark.parametrize(
    ("statement", "inputs", "reference"),
    [
        ("a += b", "a b", np.add),
        ("a -= b", "a b", np.subtract),
        ("a *= 2.0", "a b", lambda a, b: a * 2),
        ("a /= b", "a positive", np.divide),
        ("a **= 2.0", "positive b", lambda a, b: a**2),
        ("a %= b", "i j", np.mod),
        ("a &= b", "i j", np.bitwise_and),
        ("a |= 5", "i j", lambda a, b: a | 5),
        ("a ^= b", "i j", np.bitwise_xor),
        ("a <<= 2", "j i", lambda a, b: a << 2),
        ("a >>= 1", "j i", lambda a, b: a >> 1),
        ("a[...] = 3", "a b", lambda a, b: np.full_like(a, 3)),
        ("a[:, 0:8] = b[:, 8:16]", "a b", lambda a, b: np.hstack([b[:, 8:16], a[:, 8:]])),
        ("a[...] = b[:, 0:1]", "a b", lambda a, b: np.repeat(b[:, :1], a.shape[1], 1)),
        ("a[0:1, :] += b[0:1, :]", "a b", lambda a, b: np.vstack([a[:1] + b[:1], a[1:]])),
        ("a[...] = nl.where(nl.greater(b, 0.0), a, b)", "a b", lambda a, b: np.where(b > 0, a, b)),
        ("a[...] = nl.where(nl.greater(b, 0.0), b, a)", "a b", lambda a, b: np.where(b > 0, b, a)),
    ],
)  # fmt: skip
def test_in_place(run_text, statement, inputs, reference):
    first, second = (INPUTS[n] for n in inputs.split())
    result = run_text(INPLACE.format(statement=statement), first, second).as_returned()
    expected = np.asarray(reference(first, second))
    assert result.dtype == first.dtype
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=1e-6)


def test_mask_that_holds_throughout(run_text):
    """It cuts nothing, also where the result's axis has another size than the operand's."""
    text = """import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(a_in):
    a = nl.load(a_in)
    p, f = nl.arange(128)[:, None], nl.arange(96)[None, :]
    stats = nisa.bn_stats(a[p, f], mask=f < 96)
    result = nisa.bn_aggr(stats)
    out = nl.ndarray(result.shape, dtype=result.dtype, buffer=nl.shared_hbm)
    nl.store(out, result)
    return out
"""
    a = INPUTS["a"]
    result = run_text(text, a).as_returned()
    expected = np.stack([a.mean(1), a.var(1)], axis=1)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_rows_that_a_mask_left_out_are_computed_with(run_text):
    """What comes of them is no value, but the tile that holds it was written."""
    text = """import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(a_in):
    p, f = nl.arange(128)[:, None], nl.arange(96)[None, :]
    a = nl.load(a_in[p, f], mask=p < 100)
    stats = nl.ndarray((128, 12), dtype=nl.float32)
    for part in range(2):
        stats[:, part * 6 : part * 6 + 6] = nisa.bn_stats(a[:, part * 48 : part * 48 + 48])
    result = nisa.bn_aggr(stats)
    out = nl.ndarray((100, 2), dtype=result.dtype, buffer=nl.shared_hbm)
    i, j = nl.arange(128)[:, None], nl.arange(2)[None, :]
    nl.store(out[i, j], result[i, j], mask=i < 100)
    return out
"""
    a = INPUTS["a"]
    expected = np.stack([a.mean(1), a.var(1)], axis=1)[:100]
    np.testing.assert_allclose(run_text(text, a).as_returned(), expected, rtol=1e-4, atol=1e-5)


def test_accumulation_written_out(run_text):
    """``psum[...] = psum + product``: a copy and an addition, since an engine reads one PSUM tile."""
    text = """import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x, y):
    out = nl.ndarray((128, 200), dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.zeros((128, 200), dtype=nl.float32, buffer=nl.psum)
    for i in nl.affine_range(2):
        total[...] = total + nl.matmul(nl.load(x), nl.load(y), transpose_x=True)
    nl.store(out, total)
    return out
"""
    x, y = INPUTS["square"], INPUTS["weights"]
    np.testing.assert_allclose(
        run_text(text, x, y).as_returned(), 2 * x.T @ y, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(
    ("dialect", "expression", "inputs", "code"),
    [
        (LEGACY, "a + row", "a row", "R045"),
        (CURRENT, "nl.add(a, row)", "a row", "R027"),
        (CURRENT, "nl.random_seed(3)", "", "R091"),
        (LEGACY, "nl.invert(a)", "a", "R101"),
        (LEGACY, "nl.sum(a, axis=0)", "a", "R068"),
        (LEGACY, "nl.where(1.0, 2.0, 3.0)", "", "R101"),
    ],
)
def test_rejected(run_text, dialect, expression, inputs, code):
    with pytest.raises(KernelRejected) as raised:
        run_text(source(dialect, expression, inputs), *[INPUTS[n] for n in inputs.split()])
    assert raised.value.code == code


@pytest.mark.parametrize(
    ("dialect", "target"), [(LEGACY, "trn1"), (CURRENT, "trn2"), (CURRENT, "trn3")]
)
def test_random_values(run_text, dialect, target):
    """Uniform between 0 and 1, and the same again after the same seed."""
    seed = "5" if dialect is LEGACY else "nl.full((1, 1), 5, dtype=nl.int32)"
    text = f"""import {dialect.package} as nki
import {dialect.package}.language as nl


@nki.jit
def kernel():
    out = nl.ndarray((3, 128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    for number in range(3):
        if number != 1:
            nl.random_seed({seed})
        nl.store(out[number], nl.rand((128, 512), dtype=nl.float32))
    return out
"""
    first, second, third = run_text(text, target=target).as_returned()
    assert first.min() >= 0
    assert first.max() < 1
    assert abs(first.mean() - 0.5) < 0.01
    assert abs(first.var() - 1 / 12) < 0.005
    np.testing.assert_array_equal(first, third)
    assert not np.array_equal(first, second)


def test_all_reduce_of_one_program(run_text):
    text = source(LEGACY, "nl.all_reduce(a, op=np.add, program_axes=[0])", "a")
    np.testing.assert_array_equal(run_text(text, INPUTS["a"]).as_returned(), INPUTS["a"])


def test_device_print(run_text, capsys):
    text = source(LEGACY, "a", "a").replace(
        "    result", '    nl.device_print("tile", a)\n    result'
    )
    run_text(text, INPUTS["a"])
    assert capsys.readouterr().out.startswith("tile [[")
    run_text(text, INPUTS["a"], full=False)
    assert capsys.readouterr().out == ""


def test_grid_axes_over_cores():
    """nl.nc and nl.spmd_dim: how many programs, and which core each runs on."""
    from accelopt_lsp.profiler.simulator.kernels import ProgramAxis as nc
    from accelopt_lsp.profiler.simulator.language import spmd_dim

    cases = [(nc(2), [0, 1]), (nc(2) * 2, [0, 0, 1, 1]), (2 * nc(2), [0, 1, 0, 1])]
    cases += [(spmd_dim(nc(2), 2), [0, 0, 1, 1]), (spmd_dim(2, nc(2)), [0, 1, 0, 1])]
    for axis, cores in cases:
        assert axis.count == len(cores)
        assert [axis.core(i) for i in range(len(cores))] == cores
