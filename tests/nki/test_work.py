"""What instructions have to do, in hardware terms: columns, passes, descriptors, bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.nki.dtypes import get_dtype
from accelopt_lsp.nki.operands import Buffer, Engine, OperandType, row_major_strides
from accelopt_lsp.nki.work import (
    Route,
    dma_work,
    elementwise_work,
    matmul_work,
    transpose_work,
)


def tensor(dtype: str, *shape: int, buffer: Buffer = Buffer.SBUF, strides=None) -> OperandType:
    return OperandType(shape, get_dtype(dtype), buffer, strides)


def hbm(dtype: str, *shape: int, strides=None) -> OperandType:
    return tensor(dtype, *shape, buffer=Buffer.HBM, strides=strides)


class TestOperand:
    def test_sizes(self):
        tile = tensor("bf16", 128, 4, 64)
        assert (tile.partitions, tile.free, tile.elements) == (128, 256, 32768)
        assert (tile.nbytes, tile.free_bytes) == (65536, 512)
        assert tile.describe() == "bf16[128,4,64] in SBUF"

    def test_scalar_has_one_partition(self):
        assert hbm("f32").partitions == 1
        assert hbm("f32").free == 1

    @pytest.mark.parametrize(
        ("operand", "run"),
        [
            # In HBM a row continues into the next one.
            (hbm("f32", 4, 128), 512),
            # A block of columns of a wider matrix ends with its row.
            (hbm("f32", 4, 128, strides=(1024, 1)), 128),
            # Every second column: single elements.
            (hbm("f32", 4, 64, strides=(128, 2)), 1),
            # Transposed view.
            (hbm("f32", 128, 4, strides=(1, 128)), 1),
            # Sizes of one do not break a run.
            (hbm("f32", 4, 1, 128, strides=(128, 77, 1)), 512),
            # On chip a run stays in its partition.
            (tensor("f32", 4, 128), 128),
            (tensor("f32", 4, 2, 64), 128),
            (tensor("f32", 4, 2, 64, strides=(0, 128, 1)), 64),
            # Broadcast along the free axis.
            (tensor("f32", 4, 64, strides=(0, 0)), 1),
        ],
    )
    def test_contiguous_run(self, operand, run):
        assert operand.contiguous_run() == run

    @given(st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple))
    def test_a_contiguous_tensor_is_one_run(self, shape):
        operand = hbm("f32", *shape)
        assert operand.layout == row_major_strides(shape)
        assert operand.contiguous_run() == operand.elements


class TestDma:
    def test_load_of_a_column_block_has_one_descriptor_a_row(self):
        work = dma_work(tensor("bf16", 128, 512), hbm("bf16", 128, 512, strides=(2048, 1)))
        dma = work.dma
        assert dma is not None
        assert dma.route is Route.LOAD
        assert (dma.descriptors, dma.descriptor_bytes) == (128, 1024)
        assert dma.engines == 16
        assert (dma.read_bytes, dma.write_bytes) == (131072, 131072)
        assert (dma.hbm_read_bytes, dma.hbm_write_bytes) == (131072, 0)

    def test_a_contiguous_source_still_splits_at_partitions(self):
        dma = dma_work(tensor("f32", 128, 64), hbm("f32", 128, 64)).dma
        assert dma is not None
        assert (dma.descriptors, dma.descriptor_bytes) == (128, 256)

    def test_strided_columns_move_single_elements(self):
        dma = dma_work(tensor("f32", 128, 64), hbm("f32", 128, 64, strides=(256, 2))).dma
        assert dma is not None
        assert (dma.descriptors, dma.descriptor_bytes) == (128 * 64, 4)

    def test_rows_of_three_dimensions_split_where_the_inner_run_ends(self):
        """x[:, h, :] of x[4096, 8, 128]: 128 elements, then the other heads lie between."""
        source = hbm("f32", 128, 128, strides=(8 * 128, 1))
        dma = dma_work(tensor("f32", 128, 128), source).dma
        assert dma is not None
        assert (dma.descriptors, dma.descriptor_bytes) == (128, 512)

    def test_a_few_partitions_leave_engines_idle(self):
        dma = dma_work(tensor("f32", 16, 2048), hbm("f32", 16, 2048)).dma
        assert dma is not None
        assert dma.engines == 2

    def test_one_row_is_one_descriptor_on_one_engine(self):
        dma = dma_work(tensor("f32", 1, 2048), hbm("f32", 1, 2048)).dma
        assert dma is not None
        assert (dma.descriptors, dma.descriptor_bytes, dma.engines) == (1, 8192, 1)

    def test_a_cast_writes_other_bytes_than_it_reads(self):
        dma = dma_work(hbm("bf16", 128, 512), tensor("f32", 128, 512)).dma
        assert dma is not None
        assert dma.route is Route.STORE
        assert (dma.read_bytes, dma.write_bytes) == (262144, 131072)
        assert (dma.hbm_read_bytes, dma.hbm_write_bytes) == (0, 131072)

    def test_copy_within_hbm_counts_on_both_sides(self):
        dma = dma_work(hbm("f32", 128, 512), hbm("f32", 128, 512)).dma
        assert dma is not None
        assert dma.route is Route.HBM_COPY
        assert (dma.hbm_read_bytes, dma.hbm_write_bytes) == (262144, 262144)

    def test_copy_within_sbuf_touches_no_hbm(self):
        dma = dma_work(tensor("f32", 128, 512), tensor("f32", 128, 512)).dma
        assert dma is not None
        assert dma.route is Route.SBUF_COPY
        assert (dma.hbm_read_bytes, dma.hbm_write_bytes) == (0, 0)

    def test_transpose_moves_single_elements(self):
        dma = dma_work(tensor("bf16", 64, 128), hbm("bf16", 128, 64), transpose=True).dma
        assert dma is not None
        assert (dma.descriptors, dma.descriptor_bytes) == (128 * 64, 2)

    @given(
        rows=st.integers(1, 128),
        columns=st.integers(1, 512),
        pitch=st.integers(0, 600),
        step=st.integers(1, 3),
    )
    def test_descriptors_cover_the_payload_exactly(self, rows, columns, pitch, step):
        width = columns * step + pitch
        work = dma_work(
            tensor("f32", rows, columns), hbm("f32", rows, columns, strides=(width, step))
        )
        dma = work.dma
        assert dma is not None
        assert dma.descriptors * dma.descriptor_bytes == rows * columns * 4
        assert dma.descriptors >= rows
        assert 1 <= dma.engines <= 16


class TestTensorEngine:
    @pytest.mark.parametrize(
        ("dtype", "stationary", "moving", "columns", "passes"),
        [
            ("bf16", (128, 128), (128, 512), 512, 1),
            ("f32", (128, 128), (128, 512), 512, 4),
            ("f8e4m3", (128, 128), (128, 512), 512, 1),
            # A short moving tile cannot hide loading 64 stationary columns.
            ("bf16", (128, 128), (128, 1), 64, 1),
            ("bf16", (128, 16), (128, 1), 16, 1),
        ],
    )
    def test_columns_and_passes(self, dtype, stationary, moving, columns, passes):
        work = matmul_work(tensor(dtype, *stationary), tensor(dtype, *moving), is_transpose=False)
        assert (work.columns, work.passes) == (columns, passes)
        k, m = stationary
        assert work.flops == 2 * k * m * moving[1]
        assert work.dst is Buffer.PSUM

    def test_transpose_is_work_that_only_moves_data(self):
        work = transpose_work(tensor("f32", 128, 64), Engine.TENSOR)
        assert work.is_transpose
        assert (work.columns, work.passes) == (128, 4)
        assert work.flops == 2 * 128 * 128 * 64

    def test_vector_engine_transpose_multiplies_nothing(self):
        work = transpose_work(tensor("f32", 32, 32), Engine.VECTOR)
        assert (work.flops, work.columns) == (0, 0)


class TestElementwise:
    def test_inputs_by_memory(self):
        work = elementwise_work(
            tensor("f32", 128, 512),
            (tensor("f32", 128, 512), tensor("f32", 128, 512, buffer=Buffer.PSUM)),
        )
        assert (work.sbuf_inputs, work.psum_inputs) == (1, 1)
        assert (work.partitions, work.elements) == (128, 512)
        assert not work.all_16bit

    def test_a_reduction_streams_its_input(self):
        work = elementwise_work(tensor("f32", 128, 1), (tensor("f32", 128, 2048),))
        assert work.elements == 2048

    def test_sixteen_bit_and_contiguous_are_about_every_operand(self):
        tile, strided = tensor("bf16", 128, 64), tensor("bf16", 128, 64, strides=(0, 2))
        assert elementwise_work(tile, (tile,)).all_16bit
        assert elementwise_work(tile, (tile,)).contiguous
        assert not elementwise_work(tile, (strided,)).contiguous
        assert not elementwise_work(tensor("f32", 128, 64), (tile,)).all_16bit

    def test_a_fill_streams_its_destination(self):
        work = elementwise_work(tensor("f32", 64, 256), ())
        assert (work.partitions, work.elements) == (64, 256)
        assert (work.sbuf_inputs, work.psum_inputs) == (0, 0)
