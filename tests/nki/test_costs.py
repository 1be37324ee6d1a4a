"""Costs of single instructions against figures worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.nki.costs import (
    dma_ns,
    instruction_cost,
    stationary_load_ns,
    tensor_engine_ns,
)
from accelopt_lsp.nki.operands import Engine
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.nki.work import Work
from tests.nki.calls import CURRENT, LEGACY, call, t

TRN1, TRN2 = get_target("trn1"), get_target("trn2")
# Calibration changes these; the formulas around them are what is tested here.
ISSUE, TWO_INPUTS = TRN1["vector_issue_ns"], TRN1["vector_two_input_ns"]
FROM_SBUF, FROM_PSUM = TRN1["scalar_issue_ns"], TRN1["scalar_psum_issue_ns"]
DESCRIPTOR, SMALL = TRN1["dma_descriptor_ns"], TRN1["dma_small_descriptor_ns"]
RATE = TRN1["dma_engine_rate"]
TILE, PSUM = "f32[128,512]", "f32[128,512]@psum"


def busy(dialect, name, *args, target="trn1", **kwargs):
    """Occupancy in ns of the last instruction of one call."""
    issue = call(dialect, name, *args, target=target, **kwargs).issues[-1]
    cost = instruction_cost(issue.op, issue.engine, issue.work, get_target(target))
    assert cost is not None
    return cost.busy_ns


class TestTensorEngine:
    def test_fp32_product_takes_four_passes_of_512_columns(self):
        """512 x 4 / 2.4 GHz; measured at 853 ns."""
        ns = busy(LEGACY, "nisa.nc_matmul", "f32[128,128]", "f32[128,512]")
        assert ns == pytest.approx(853.3, abs=0.1)

    def test_bf16_product_takes_one(self):
        ns = busy(LEGACY, "nisa.nc_matmul", "bf16[128,128]", "bf16[128,512]")
        assert ns == pytest.approx(213.3, abs=0.1)

    def test_fp32_transpose_of_a_square_takes_213_ns(self):
        assert busy(LEGACY, "nisa.nc_transpose", "f32[128,128]") == pytest.approx(213.3, abs=0.1)

    def test_two_rows_at_once_take_the_time_of_one(self):
        """K = 256 in 8-bit floats costs what K = 128 in bfloat16 does (trainium2_arch)."""
        args = ("f32[128,512]@psum", "f8e4m3[128,2,128]", "f8e4m3[128,2,512]")
        packed = busy(CURRENT, "nisa.nc_matmul", *args, target="trn2", perf_mode="double_row")
        plain = ("f32[128,512]@psum", "bf16[128,128]", "bf16[128,512]")
        assert packed == busy(CURRENT, "nisa.nc_matmul", *plain, target="trn2")
        work = (
            call(CURRENT, "nisa.nc_matmul", *args, target="trn2", perf_mode="double_row")
            .issues[0]
            .work
        )
        assert work.flops == 2 * 256 * 128 * 512

    def test_rows_of_the_contraction_cost_nothing(self):
        short = busy(LEGACY, "nisa.nc_matmul", "bf16[1,128]", "bf16[1,512]")
        assert short == busy(LEGACY, "nisa.nc_matmul", "bf16[128,128]", "bf16[128,512]")

    @pytest.mark.parametrize(
        ("dtype", "target", "passes"),
        [("f32", "trn1", 4), ("f32", "trn2", 2), ("f32", "trn3", 2), ("bf16", "trn2", 1)],
    )
    def test_fp32_transposes_take_half_the_passes_from_trainium_2_on(self, dtype, target, passes):
        args = (f"{dtype}[128,128]@psum", f"{dtype}[128,128]")
        ns = busy(CURRENT, "nisa.nc_transpose", *args, target=target)
        assert ns == pytest.approx(128 * passes / 2.4)

    @pytest.mark.parametrize(
        ("stationary", "moving", "cycles"), [(128, 1, 64), (1, 128, 128), (128, 512, 512)]
    )
    def test_short_operands_belong_on_the_moving_side(self, stationary, moving, cycles):
        """64 cycles against 128 for a vector and a square (nki_perf_guide)."""
        args = (f"bf16[128,{stationary}]", f"bf16[128,{moving}]")
        assert busy(LEGACY, "nisa.nc_matmul", *args) == pytest.approx(cycles / 2.4)

    @pytest.mark.parametrize(("dtype", "cycles"), [("bf16", 32), ("f32", 128)])
    def test_a_stationary_operand_loads_four_times_as_fast_as_it_multiplies(self, dtype, cycles):
        args = (f"{dtype}[128,128]", f"{dtype}[128,512]")
        work = call(LEGACY, "nisa.nc_matmul", *args).issues[0].work
        assert stationary_load_ns(work, TRN1) == pytest.approx(cycles / 2.4)

    def test_published_transpose_matmul_floor(self):
        """10,944 fp32 products bound the best published transpose_matmul, 9.356 ms."""
        work = Work(partitions=128, elements=512, columns=512, passes=4)
        total = 10_944 * tensor_engine_ns(work, TRN1) / 1e6
        assert total == pytest.approx(9.356, rel=0.003)


class TestVectorEngine:
    """1.12 GHz on Trainium 1, a time to issue, and more for two inputs in SBUF."""

    def test_statistics_stream_and_merge(self):
        """N cycles to take them, 13 for each triple to merge them, 64 at least."""
        assert busy(LEGACY, "nisa.bn_stats", TILE) == pytest.approx(512 / 1.12 + ISSUE)
        assert busy(LEGACY, "nisa.bn_aggr", "f32[128,36]") == pytest.approx(156 / 1.12 + ISSUE)
        assert busy(LEGACY, "nisa.bn_aggr", "f32[128,6]") == pytest.approx(64 / 1.12 + ISSUE)

    def test_one_input(self):
        ns = busy(LEGACY, "nisa.tensor_scalar", TILE, "maximum", 0.0)
        assert ns == pytest.approx(512 / 1.12 + ISSUE)

    def test_two_fp32_inputs_in_sbuf_take_two_cycles_an_element(self):
        ns = busy(LEGACY, "nl.add", TILE, TILE)
        assert ns == pytest.approx(2 * 512 / 1.12 + ISSUE + TWO_INPUTS)

    def test_one_input_in_psum_takes_one_cycle(self):
        ns = busy(CURRENT, "nisa.tensor_tensor", TILE, TILE, PSUM, "add")
        assert ns == pytest.approx(512 / 1.12 + ISSUE)

    def test_two_bf16_inputs_take_one_cycle(self):
        ns = busy(LEGACY, "nl.add", "bf16[128,512]", "bf16[128,512]")
        assert ns == pytest.approx(512 / 1.12 + ISSUE + TWO_INPUTS)

    def test_a_scan_takes_two_cycles(self):
        ns = busy(LEGACY, "nisa.tensor_tensor_scan", TILE, TILE, 0.0, "multiply", "add")
        assert ns == pytest.approx(2 * 512 / 1.12 + ISSUE + TWO_INPUTS)

    def test_a_small_tile_takes_the_least_time(self):
        """64 cycles, however few the elements."""
        ns = busy(LEGACY, "nisa.reciprocal", "f32[128,1]")
        assert ns == pytest.approx(64 / 1.12 + ISSUE)

    def test_reciprocal_takes_its_calibrated_cycles(self):
        assert busy(LEGACY, "nisa.reciprocal", TILE) == pytest.approx(
            TRN1["vector_reciprocal_factor"] * 512 / 1.12 + ISSUE
        )

    def test_a_reduction_costs_its_input(self):
        assert busy(LEGACY, "nl.sum", TILE, 1) == pytest.approx(512 / 1.12 + ISSUE)

    def test_trainium_1_has_no_performance_modes(self):
        ns = busy(CURRENT, "nisa.tensor_copy", "bf16[128,512]", "bf16[128,512]")
        assert ns == pytest.approx(512 / 1.12 + ISSUE)


class TestScalarEngine:
    def test_from_sbuf_and_from_psum(self):
        assert busy(LEGACY, "nl.exp", TILE) == pytest.approx(512 / 1.4 + FROM_SBUF)
        assert busy(LEGACY, "nl.copy", PSUM) == pytest.approx(512 / 1.4 + FROM_PSUM)

    def test_reading_a_sum_out_takes_64_cycles_more(self):
        issue = call(LEGACY, "nl.softmax", TILE, 1).issues[1]
        assert issue.op == "activation"
        cost = instruction_cost("activation", Engine.SCALAR, issue.work, TRN1)
        assert cost is not None
        assert cost.busy_ns == pytest.approx((512 + 64) / 1.4 + FROM_SBUF)


SBUF16, PSUM16, HALF = "bf16[128,512]", "bf16[128,512]@psum", "f16[128,512]"
STRIDED = t(SBUF16, (0, 2))
VECTOR_CYCLES = [
    # API, arguments after the destination, destination, cycles on trn1, trn2 and trn3.
    # Copies and computations with numbers have performance modes from NeuronCore-v3 on.
    ("tensor_copy", [TILE], TILE, 512, 256, 256),
    ("tensor_copy", [PSUM], TILE, 512, 512, 512),
    ("tensor_copy", [SBUF16], SBUF16, 512, 128, 128),
    ("tensor_copy", [STRIDED], SBUF16, 512, 256, 256),
    ("tensor_copy", [PSUM16], SBUF16, 512, 256, 256),
    ("tensor_copy", [SBUF16], TILE, 512, 256, 256),
    ("tensor_scalar", [HALF, "multiply", 2.0], SBUF16, 512, 128, 128),
    ("tensor_scalar", [SBUF16, "multiply", 2.0, False, "add", 1.0], SBUF16, 512, 128, 128),
    ("tensor_copy", ["bf16[128,8]"], "bf16[128,8]", 64, 64, 64),
    # Two inputs: the fast form of NeuronCore-v2, twice the rate of it later.
    ("tensor_tensor", [TILE, TILE, "add"], TILE, 1024, 1024, 1024),
    ("tensor_tensor", [TILE, PSUM, "add"], TILE, 512, 512, 512),
    ("tensor_tensor", [SBUF16, SBUF16, "add"], SBUF16, 512, 256, 256),
    ("tensor_tensor", [SBUF16, SBUF16, "maximum"], SBUF16, 1024, 512, 512),
    ("tensor_tensor", [HALF, HALF, "add"], HALF, 1024, 512, 512),
    ("tensor_tensor", [SBUF16, SBUF16, "add"], TILE, 1024, 1024, 1024),
    ("tensor_tensor", [STRIDED, SBUF16, "add"], SBUF16, 1024, 512, 512),
    ("scalar_tensor_tensor", [SBUF16, "subtract", 1.0, "multiply", SBUF16], SBUF16, 512, 256, 256),
    ("scalar_tensor_tensor", [SBUF16, "add", 1.0, "multiply", SBUF16], SBUF16, 1024, 512, 512),
    ("scalar_tensor_tensor", [TILE, "subtract", 1.0, "multiply", TILE], TILE, 1024, 1024, 1024),
    ("tensor_tensor_scan", [SBUF16, SBUF16, 0.0, "multiply", "add"], SBUF16, 1024, 1024, 1024),
    # Reductions and constants.
    ("tensor_reduce", ["add", SBUF16, 1], "bf16[128,1]", 256, 256, 256),
    ("tensor_reduce", ["maximum", SBUF16, 1], "bf16[128,1]", 256, 256, 256),
    ("tensor_reduce", ["multiply", SBUF16, 1], "bf16[128,1]", 512, 512, 512),
    ("tensor_reduce", ["add", SBUF16, 1], "f32[128,1]", 512, 512, 512),
    ("memset", [0.0], SBUF16, 256, 256, 256),
    ("memset", [1.0], SBUF16, 512, 512, 512),
    ("memset", [0.0], TILE, 512, 512, 512),
    ("nc_transpose", ["f32[32,32]", "vector"], "f32[32,32]", 64, 64, 64),
    ("select_reduce", ["u8[128,512]", TILE, TILE], TILE, 1024, 1024, 1024),
    ("dropout", [TILE, 0.5], TILE, 512, 512, 512),
]


@pytest.mark.parametrize(("name", "args", "dst", "trn1", "trn2", "trn3"), VECTOR_CYCLES)
def test_cycles_of_the_vector_engine(name, args, dst, trn1, trn2, trn3):
    """The documented tables of nki.isa (SDK 2.26) and the later performance modes."""
    for target, cycles in (("trn1", trn1), ("trn2", trn2), ("trn3", trn3)):
        issue = call(CURRENT, f"nisa.{name}", dst, *args, target=target).issues[-1]
        assert issue.engine is Engine.VECTOR
        cost = instruction_cost(issue.op, issue.engine, issue.work, get_target(target))
        constants = get_target(target)
        rest = constants["vector_issue_ns"]
        if issue.work.sbuf_inputs > 1:
            rest += constants["vector_two_input_ns"]
        assert (cost.busy_ns - rest) * constants["vector_clock"] == pytest.approx(cycles)


class TestTrainium3:
    """What only NeuronCore-v4 has."""

    def cycles(self, name, *args, **kwargs):
        ns = busy(CURRENT, name, *args, target="trn3", **kwargs)
        issue = call(CURRENT, name, *args, target="trn3", **kwargs).issues[-1]
        constants = get_target("trn3")
        return (ns - constants[f"{issue.engine}_issue_ns"]) * constants[f"{issue.engine}_clock"]

    def test_an_exponential_at_four_times_the_rate_of_scalar(self):
        assert self.cycles("nisa.exponential", TILE, TILE) == pytest.approx(128)

    def test_random_numbers_at_four_a_cycle(self):
        assert self.cycles("nisa.rand2", TILE, 0.0, 1.0) == pytest.approx(128)

    def test_scalar_copies_16_bit_tiles_twice_as_fast(self):
        wide = self.cycles("nisa.tensor_copy", SBUF16, SBUF16, engine="scalar")
        assert wide == pytest.approx(256)
        assert self.cycles("nisa.tensor_copy", TILE, TILE, engine="scalar") == pytest.approx(512)

    def test_activate2_streams_as_an_activation_does(self):
        args = (TILE, "exp", TILE, 1.0, 0.0, "multiply", "add")
        assert self.cycles("nisa.activate2", *args) == pytest.approx(512)


class TestGpSimd:
    def test_150_cycles_to_start(self):
        ns = busy(CURRENT, "nisa.tensor_tensor", TILE, TILE, TILE, "add", engine="gpsimd")
        assert ns == pytest.approx((150 + 2 * 512) / 1.4)


class TestDma:
    def test_rows_of_a_tile_over_sixteen_engines(self):
        """128 rows of 2 KiB: 8 descriptors an engine, measured at 125 ns each."""
        ns = busy(LEGACY, "nl.load", TILE.replace("]", "]@hbm"))
        assert ns == pytest.approx(8 * (DESCRIPTOR + 2048 / RATE))
        assert ns == pytest.approx(8 * 125, rel=0.02)

    def test_descriptors_below_512_bytes(self):
        ns = busy(LEGACY, "nl.load", "bf16[128,128]@hbm")
        assert ns == pytest.approx(8 * (SMALL + 256 / RATE))

    def test_large_rows_reach_the_measured_rate(self):
        """8 KiB rows move at about 280 GB/s, strided single elements at a small share of it."""
        wide = call(LEGACY, "nl.load", "f32[128,2048]@hbm").issues[0].work.dma
        assert wide is not None
        rate = wide.read_bytes / dma_ns(wide, TRN1)
        assert 250 < rate < 298
        strided = call(LEGACY, "nl.load", t("f32[128,64]@hbm", (256, 2))).issues[0].work.dma
        assert strided is not None
        assert strided.read_bytes / dma_ns(strided, TRN1) < 0.02 * rate

    @pytest.mark.parametrize(
        ("dst", "src", "share"),
        [
            ("bf16[128,512]", "bf16[512,128]@hbm", 0.9),
            ("f32[128,512]", "f32[512,128]@hbm", 0.9),
            ("bf16[128,128]", "bf16[128,128]", 0.5),
        ],
    )
    def test_transposes_from_trainium_2_on(self, dst, src, share):
        """A share of the copy rate, in blocks of 128 partitions by 16 elements."""
        ns = busy(CURRENT, "nisa.dma_transpose", dst, src, target="trn2")
        assert ns == pytest.approx(t(dst).nbytes / (share * 16 * TRN2["dma_engine_rate"]))

    def test_part_of_a_block_takes_the_time_of_a_full_one(self):
        narrow = busy(CURRENT, "nisa.dma_transpose", "bf16[64,8]", "bf16[8,64]@hbm", target="trn2")
        full = ("bf16[128,16]", "bf16[16,128]@hbm")
        assert narrow == busy(CURRENT, "nisa.dma_transpose", *full, target="trn2")

    def test_transposes_of_trainium_1_move_single_elements(self):
        args = ("bf16[128,512]", "bf16[512,128]@hbm")
        slow, fast = (
            busy(CURRENT, "nisa.dma_transpose", *args, target=g) for g in ("trn1", "trn2")
        )
        assert slow > 100 * fast

    def test_engines_that_compute_move_half_as_fast(self):
        tile = "f32[128,2048]@hbm"
        args = (t("f32[128,2048]"), (t(tile),), "add")
        ns = busy(CURRENT, "nisa.dma_compute", *args, target="trn2")
        row = TRN2["dma_descriptor_ns"] + 2 * 8192 / TRN2["dma_engine_rate"]
        assert ns == pytest.approx(8 * row)

    def test_completion_is_latency_and_occupies_nothing(self):
        issue = call(LEGACY, "nl.load", "f32[128,512]@hbm").issues[0]
        cost = instruction_cost(issue.op, issue.engine, issue.work, TRN1)
        assert cost is not None
        assert cost.latency_ns == TRN1["dma_completion_ns"]


def test_an_instruction_without_a_formula_has_no_cost():
    work = Work(partitions=128, elements=512)
    assert instruction_cost("not in the table", Engine.VECTOR, work, TRN1) is None


@given(st.integers(1, 4096), st.integers(1, 4096))
def test_more_elements_never_take_less_time(first, second):
    few, many = sorted((first, second))
    for name in ("nl.exp", "nl.square", "nl.reciprocal"):
        assert busy(LEGACY, name, f"f32[128,{few}]") <= busy(LEGACY, name, f"f32[128,{many}]")


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("engine", ["vector", "gpsimd"])
def test_every_generation_gives_a_cost(target, engine):
    for args in ([TILE, TILE], [TILE, PSUM]):
        if engine == "gpsimd" and PSUM in args:
            continue
        assert busy(CURRENT, "nisa.tensor_copy", *args, engine=engine, target=target) > 0
