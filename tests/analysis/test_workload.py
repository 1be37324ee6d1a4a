"""What is known of a kernel's work: routes, reuse, live memory, dependences, ceilings."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.analysis import analyze
from accelopt_lsp.analysis.coverage import Footprint, union_size
from accelopt_lsp.analysis.syntax import Document
from accelopt_lsp.nki.workload import Waiting, Workload

HEAD = """import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: {arguments}
@nki.jit
def kernel({names}):
"""


def workload(body: str, arguments: str = "x=f32[1024,512]") -> Workload:
    names = ", ".join(a.partition("=")[0] for a in arguments.split() if not a.startswith("target"))
    text = HEAD.format(arguments=arguments, names=names) + body
    (kernel,) = analyze(Document.parse(text)).kernels
    assert kernel.workload is not None
    assert kernel.workload.complete, kernel.workload.unknowns
    return kernel.workload


ROWS = """    out = nl.ndarray((1024, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(8):
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128, :])
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, :], src=tile)
    return out
"""
PRODUCT = """    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    for k in range(4):
        left = nl.ndarray((128, 128), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=left, src=a[k * 128 : (k + 1) * 128, :])
        right = nl.ndarray((128, 512), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=right, src=b[k * 128 : (k + 1) * 128, :])
        nisa.nc_matmul(dst=acc, stationary=left, moving=right)
    result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=acc)
    nisa.dma_copy(dst=out, src=result)
    return out
"""
OPERANDS = "a=bf16[512,128] b=bf16[512,512]"


def test_bytes_by_route_and_descriptors_by_size():
    work = workload(ROWS)
    moved = 1024 * 512 * 4
    assert work.traffic.routes == {"hbm->sbuf": moved, "sbuf->hbm": moved}
    assert work.traffic.descriptors == {2048: 2 * 1024}
    (loop,) = work.loops
    assert loop.traffic == work.traffic
    assert loop.issued.instructions == {"dma_copy": 16, "activation": 8}
    exponent = next(line for line in work.lines if "activation" in line.issued.instructions)
    assert exponent.engine_bytes == {"sbuf->scalar": moved, "scalar->sbuf": moved}
    assert exponent.traffic.routes == {}


def test_flops_are_told_apart_by_type():
    work = workload(PRODUCT, OPERANDS)
    assert work.flops == {"bfloat16": 2 * 512 * 128 * 512}
    assert workload(PRODUCT, "a=f32[512,128] b=f32[512,512]").flops == {
        "float32": 2 * 512 * 128 * 512
    }
    (loop,) = work.loops
    assert loop.flops == work.flops
    product_line = next(line for line in work.lines if line.flops)
    assert product_line.engine_bytes["tensor->psum"] == 4 * 128 * 512 * 4


def test_tensors_tell_how_often_their_bytes_move():
    body = ROWS.replace("src=x[i * 128 : (i + 1) * 128, :]", "src=x[0:128, :]")
    tensors = {t.name: t for t in workload(body).tensors}
    read = tensors["x"]
    assert (read.size_bytes, read.read_bytes) == (1024 * 2048, 8 * 128 * 2048)
    assert read.distinct_read_bytes == 128 * 2048
    assert tensors["out"].distinct_written_bytes == 1024 * 2048
    line = next(line for line in workload(body).lines if line.reload_factor)
    assert line.reload_factor == 8
    assert [(name, trips) for _, name, trips in line.reload_loops] == [("i", 8)]


def test_two_readers_of_overlapping_rows_are_counted_exactly():
    body = ROWS.replace(
        "        nisa.activation(",
        "        nisa.dma_copy(dst=tile[0:64, :], src=x[i * 64 : (i + 1) * 64, :])\n"
        "        nisa.activation(",
    )
    work = workload(body)
    (read,) = [t for t in work.tensors if t.name == "x"]
    assert read.distinct_read_bytes == 1024 * 2048
    assert work.compulsory_read_bytes == 1024 * 2048


def test_the_fullest_moment_names_its_holders():
    body = ROWS.replace(
        "        nisa.activation(dst=tile, op=nl.exp, data=tile)\n",
        "        wide = nl.ndarray((128, 4096), dtype=x.dtype, buffer=nl.sbuf)\n"
        "        nisa.memset(dst=wide, value=0.0)\n"
        "        nisa.tensor_tensor(dst=tile, data1=tile, data2=wide[:, 0:512], op=nl.add)\n",
    )
    work = workload(body)
    assert work.sbuf_peak_bytes == 16384 + 2048
    assert [(h.name, h.partition_bytes) for h in work.sbuf_holders] == [
        ("wide", 16384),
        ("tile", 2048),
    ]
    by_line = {line.line: line.sbuf_live_bytes for line in work.lines}
    assert by_line[work.sbuf_peak_line] == work.sbuf_peak_bytes
    first = min(by_line)
    assert by_line[first] == 2048


def test_psum_banks_in_use():
    work = workload(PRODUCT, OPERANDS)
    assert (work.psum_peak_bytes, work.psum_peak_banks) == (2048, 1)
    (held,) = work.psum_holders
    assert held.name == "acc"
    assert {a.banks for a in work.allocations if a.buffer == "psum"} == {1}


OUTSIDE = ROWS.replace("    for i in range(8):\n", "").replace(
    "        tile = nl.ndarray", "    tile = nl.ndarray"
)
OUTSIDE = OUTSIDE.replace("buffer=nl.sbuf)\n", "buffer=nl.sbuf)\n    for i in range(8):\n", 1)
CARRIED = """    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=total, value=0.0)
    for i in range(8):
        tile = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128, :])
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out
"""
PLACES = """    out = nl.ndarray((1024, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    rows = nl.ndarray((128, 4096), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(8):
        part = rows[:, i * 512 : (i + 1) * 512]
        nisa.dma_copy(dst=part, src=x[i * 128 : (i + 1) * 128, :])
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, :], src=part)
    return out
"""


@pytest.mark.parametrize(
    ("body", "arguments", "expected"),
    [
        (ROWS, "x=f32[1024,512]", []),
        (OUTSIDE, "x=f32[1024,512]", [("tile", Waiting.REUSE, True)]),
        (CARRIED, "x=f32[1024,512]", [("total", Waiting.CARRIED, False)]),
        (PRODUCT, OPERANDS, [("acc", Waiting.PRODUCT, False)]),
        (PLACES, "x=f32[1024,512]", []),
    ],
    ids=["own tile", "tile outside", "running total", "products", "own places"],
)
def test_what_makes_iterations_wait(body, arguments, expected):
    waits = workload(body, arguments).dependences
    assert [(w.tensor, w.waiting, w.movable) for w in waits] == expected


def test_a_tile_that_is_used_after_the_loop_cannot_move_inside():
    body = OUTSIDE.replace(
        "    return out", "    nisa.dma_copy(dst=out[0:128, :], src=tile)\n    return out"
    )
    (wait,) = workload(body).dependences
    assert (wait.waiting, wait.movable) == (Waiting.REUSE, False)
    assert (wait.writers, wait.readers) == (("dma", "scalar"), ("scalar", "dma"))


def test_queues_and_ports_are_ceilings():
    work = workload(ROWS)
    assert work.ceilings_ns["load queue"] == 8 * 600
    assert work.ceilings_ns["store queue"] == 8 * 600
    ready = ROWS.replace("(i + 1) * 128, :])", "(i + 1) * 128, :], dge_mode=nisa.dge_mode.none)", 1)
    assert workload(ready).ceilings_ns["load queue"] < 8 * 600
    assert "sbuf port" not in work.ceilings_ns
    both = ROWS.replace(
        "        nisa.activation(dst=tile, op=nl.exp, data=tile)\n",
        "        nisa.tensor_copy(dst=tile, src=tile, engine=nisa.gpsimd_engine)\n"
        "        nisa.tensor_copy(dst=tile, src=tile, engine=nisa.vector_engine)\n",
    )
    shared = workload(both, "x=f32[1024,512] target=trn1").ceilings_ns
    assert shared["sbuf port"] == pytest.approx(shared["vector"] + shared["gpsimd"])


def brute(footprint: Footprint) -> set[int]:
    places = product(*(range(0, s * n, s) for s, n in footprint.levels))
    return {footprint.base + sum(place) for place in places}


levels = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 5)), max_size=3).map(
    lambda found: tuple(sorted(dict(found).items()))
)


@given(st.lists(st.tuples(st.integers(0, 60), levels), min_size=1, max_size=5))
def test_unions_are_exact_or_unknown(found):
    footprints = []
    for base, steps in found:
        raw = Footprint(base, steps, True)
        exact = len(brute(raw)) == raw.count
        footprints.append(Footprint(base, steps, exact))
    counted = union_size(footprints, 1 << 20)
    whole = len(set().union(*map(brute, footprints)))
    assert counted == whole if all(f.exact for f in footprints) else counted is None


@pytest.mark.parametrize(("columns", "told"), [(512, False), (16384, True)])
def test_the_estimate_says_that_it_leaves_out_spills(columns, told):
    body = f"""    out = nl.ndarray((1024, {columns}), dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = []
    for i in range(8):
        tile = nl.ndarray((128, {columns}), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128, :])
        tiles.append(tile)
    for i in range(8):
        nisa.dma_copy(dst=out[i * 128 : (i + 1) * 128, :], src=tiles[i])
    return out
"""
    text = HEAD.format(arguments=f"x=f32[1024,{columns}]", names="x") + body
    (kernel,) = analyze(Document.parse(text)).kernels
    assert kernel.profile is not None
    assert any("spills, which the estimate leaves out" in n for n in kernel.profile.notes) is told
