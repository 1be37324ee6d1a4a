"""Limits of the hardware on shapes, memories and engines."""

from __future__ import annotations

from collections.abc import Iterator

from accelopt_lsp.analysis.machine import Record
from accelopt_lsp.analysis.rules.base import Context, Rule, elsewhere, slot_of
from accelopt_lsp.nki.diagnostics import Diagnostic, Severity
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.instructions import Violation
from accelopt_lsp.nki.operands import Buffer


class PartitionLimit(Rule):
    """## What it does
    Finds on-chip tensors with more than 128 partitions (dimension 0).

    ## Why
    SBUF and PSUM have 128 partitions, and every instruction works on at most 128. The compiler
    rejects more.

    ## Example
    ```python
    tile = nl.ndarray((256, 512), dtype=nl.float32, buffer=nl.sbuf)
    ```

    ## Use instead
    Split dimension 0 into tiles of 128 and loop over them, or move a part of it to the free axis:
    ```python
    tile = nl.ndarray((128, 2, 512), dtype=nl.float32, buffer=nl.sbuf)
    ```
    """

    code = "R023"
    name = "partition-limit"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        reported: set[int] = set()
        limit = context.machine.target.integer("partitions")
        for storage in context.machine.storages:
            shape = storage.tile_shape
            if not storage.buffer.on_chip or shape[0] <= limit or storage.kind != "tensor":
                continue
            if storage.line not in reported:
                reported.add(storage.line)
                yield Diagnostic(
                    self.code,
                    self.severity,
                    f"{storage.name or 'tensor'} spans {shape[0]} partitions, the hardware has "
                    f"{limit}",
                    self.place(context, storage),
                    related=elsewhere(storage.origin),
                )
        for found in super().check(context):
            if found.span.start.line not in reported:
                yield found

    def broken(self, context: Context) -> Iterator[tuple[Record, Violation]]:
        """One place a tensor: where it is created, or the first call that takes or gives it."""
        told = {s for s in context.machine.storages if s.kind == "tensor"}
        for record, violation in super().broken(context):
            view = record.views.get(slot_of(record, violation) or "")
            if view is None or view.storage not in told:
                yield record, violation
            if view is not None:
                told.add(view.storage)


class MatmulSize(Rule):
    """## What it does
    Finds operands whose size passes an instruction's limit, above all those of matrix products:
    the stationary tile has at most 128 columns, the moving tile at most 512 (4096 on trn3).

    ## Why
    The Tensor Engine is an array of 128 x 128 cells, and a product must fit one PSUM bank.

    ## Example
    ```python
    nisa.nc_matmul(dst=acc, stationary=w[:, 0:256], moving=x)
    ```

    ## Use instead
    Loop over pieces of 128 stationary and 512 moving columns, each with a PSUM tile of its own.
    """

    code = "R026"
    name = "operand-size"


class PsumBank(Rule):
    """## What it does
    Finds matrix products whose result does not fit one PSUM bank (2 KiB a partition: 512 float32).

    ## Why
    The Tensor Engine adds up within one bank; a result may not cross its border.

    ## Example
    ```python
    acc = nl.ndarray((128, 1024), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=w, moving=x)
    ```

    ## Use instead
    Take tiles of at most 512 float32 columns and loop over them.
    """

    code = "R052"
    name = "psum-bank"


class MemoryOverflow(Rule):
    """## What it does
    Finds tensors that are larger than the memory they are in, and kernels whose live tensors in
    PSUM together seem to be (of SBUF, P02 tells).

    ## Why
    A partition has 192 KiB of SBUF on trn1 (224 KiB on trn2), of which the compiler keeps some,
    and 16 KiB of PSUM. A tensor that is larger cannot be placed. Where the sum of live tensors
    is larger the compiler spills to HBM, which costs bandwidth; that sum is an estimate.

    ## Example
    ```python
    tile = nl.ndarray((128, 65536), dtype=nl.float32, buffer=nl.sbuf)  # 256 KiB a partition
    ```

    ## Use instead
    Smaller tiles, a lower-precision type, or shorter lives: create a tensor in the innermost loop
    that uses it.
    """

    code = "R051"
    name = "memory-overflow"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        target = context.machine.target
        sizes = {
            Buffer.SBUF: target.integer("sbuf_partition_bytes"),
            Buffer.PSUM: target.integer("psum_partition_bytes"),
        }
        reported: set[int] = set()
        for storage in context.machine.storages:
            size = sizes.get(storage.buffer)
            if size is None or storage.partition_bytes <= size or storage.line in reported:
                continue
            reported.add(storage.line)
            yield Diagnostic(
                self.code,
                Severity.ERROR,
                f"{storage.name or 'tensor'} needs {storage.partition_bytes} bytes a partition; "
                f"{storage.buffer.upper()} has {size} on {target.name}",
                self.place(context, storage),
                related=elsewhere(storage.origin),
            )
        if not reported and not context.machine.placed:
            # Where the writer places tiles himself, many share a place and none is spilled.
            yield from self._peak(context, sizes[Buffer.PSUM])

    def _peak(self, context: Context, size: int) -> Iterator[Diagnostic]:
        live = context.workload.psum_peak_bytes
        if live is not None and live > size:
            yield Diagnostic(
                self.code,
                Severity.INFORMATION,
                f"up to about {live // 1024} KiB of PSUM a partition are live at once, "
                f"{size // 1024} KiB exist: expect spills",
                context.kernel.name_span,
            )


class OperatorBroadcast(Rule):
    """## What it does
    Finds operators (`+`, `*`, `<<`, ...) in the legacy dialect between a tile of one partition
    and a tile of several.

    ## Why
    Operators broadcast along free axes only; the functions of `nki.language` broadcast partitions
    as well, by a product on the Tensor Engine.

    ## Example
    ```python
    out = x_tile * weights        # [128, 512] * [1, 512]
    ```

    ## Use instead
    `nl.multiply(x_tile, weights)`, or `weights.broadcast_to((128, 512))` once outside the loop.
    """

    code = "R045"
    name = "operator-broadcast"


class WrongBuffer(Rule):
    """## What it does
    Finds operands in a memory that the instruction cannot reach.

    ## Why
    Engines compute in SBUF and PSUM only, the Tensor Engine reads SBUF and writes PSUM, and DMAs
    do not reach PSUM.

    ## Example
    ```python
    nisa.nc_matmul(dst=sbuf_tile, stationary=w, moving=x)
    ```

    ## Use instead
    Load from HBM first (`nisa.dma_copy`, `nl.load`); give matrix products a PSUM tile and copy it
    to SBUF (`nisa.tensor_copy`) before storing it.
    """

    code = "R034"
    name = "wrong-buffer"


class PartitionMismatch(Rule):
    """## What it does
    Finds operands of one instruction with different numbers of partitions.

    ## Why
    Every lane works on its own partition of each operand. In matrix products the partitions are
    the contraction, which must be the same on both sides.

    ## Example
    ```python
    nisa.tensor_tensor(dst=out, data1=x[0:128], data2=y[0:64], op=nl.add)
    ```

    ## Use instead
    Slice both to the same partitions, or broadcast the smaller one first.
    """

    code = "R024"
    name = "partition-mismatch"


class ShapeMismatch(Rule):
    """## What it does
    Finds operands whose sizes do not go together with the destination.

    ## Why
    Instructions process the same number of elements a partition on every operand.

    ## Example
    ```python
    nisa.tensor_copy(dst=tile[:, 0:256], src=acc)  # acc has 512 columns
    ```

    ## Use instead
    Slice both sides to the same size.
    """

    code = "R027"
    name = "shape-mismatch"


class OutOfBounds(Rule):
    """## What it does
    Finds slices and indices that are sure to leave their dimension for some iteration. Masked
    accesses and indices that are not known are never reported.

    ## Why
    The compiler rejects them.

    ## Example
    ```python
    for i in nl.affine_range(33):           # 33 * 128 > 4096 rows
        tile = nl.load(x[i * 128 : (i + 1) * 128, :])
    ```

    ## Use instead
    Fewer iterations, a shorter last slice (`min(...)`), or a mask in the legacy dialect.
    """

    code = "R028"
    name = "out-of-bounds"


class ReductionAxis(Rule):
    """## What it does
    Finds reductions over axes that the Vector Engine cannot reduce.

    ## Why
    Axes must be consecutive free axes that end at the last one; the partition axis 0 cannot be
    reduced.

    ## Example
    ```python
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=0)
    ```

    ## Use instead
    Reduce over partitions by a matrix product with a vector of ones, or transpose first.
    """

    code = "R068"
    name = "reduction-axis"


class TransposeTypes(Rule):
    """## What it does
    Finds DMA transposes whose source and destination differ in data type.

    ## Why
    A transposing DMA moves bytes; it cannot cast.

    ## Example
    ```python
    nisa.dma_transpose(dst=bf16_tile, src=f32_tensor)
    ```

    ## Use instead
    Transpose in the source's type, then `nisa.tensor_copy` into the other type.
    """

    code = "R065"
    name = "dma-transpose-type"


class MatmulTypes(Rule):
    """## What it does
    Finds matrix products that mix float32 with another type.

    ## Why
    The Tensor Engine takes float32 only together with float32.

    ## Example
    ```python
    nisa.nc_matmul(dst=acc, stationary=w_bf16, moving=x_f32)
    ```

    ## Use instead
    Cast one side with `nisa.tensor_copy`; bfloat16 on both sides is four times as fast.
    """

    code = "R070"
    name = "matmul-types"


class PsumInputs(Rule):
    """## What it does
    Finds instructions that read two inputs from PSUM, or PSUM operands on the GpSimd engine.

    ## Why
    The Vector Engine has one read port on PSUM, GpSimd has none.

    ## Example
    ```python
    nisa.tensor_tensor(dst=out, data1=psum_a, data2=psum_b, op=nl.add)
    ```

    ## Use instead
    Copy one of them to SBUF first.
    """

    code = "R094"
    name = "psum-inputs"

    def severity_of(self, context: Context, record: Record) -> Severity:
        """The legacy compiler copies one of them itself in functions of nki.language."""
        legacy = context.kernel.dialect is Dialect.LEGACY
        return Severity.WARNING if legacy else self.severity


class Generation(Rule):
    """## What it does
    Finds instructions that the target's generation does not have.

    ## Why
    Later NeuronCores added instructions; earlier ones reject them.

    ## Example
    An instruction of NeuronCore-v4 with `target=trn1`.

    ## Use instead
    Another instruction, or the right target: `# accelopt: target=trn3`.
    """

    code = "R095"
    name = "generation"


class StartPartition(Rule):
    """## What it does
    Finds tiles that start at a partition at which an instruction may not start.

    ## Why
    Up to 32 partitions may start at 0, 32, 64 or 96, up to 64 at 0 or 64, more only at 0.

    ## Example
    ```python
    nisa.tensor_copy(dst=out[0:16], src=tile[16:32])
    ```

    ## Use instead
    Lay out data so that pieces begin at a multiple of 32.
    """

    code = "R100"
    name = "start-partition"
    severity = Severity.WARNING


class WrongEngine(Rule):
    """## What it does
    Finds instructions that are sent to an engine that cannot run them.

    ## Why
    Each engine has an instruction set of its own.

    ## Example
    ```python
    nisa.activation(..., engine=nisa.vector_engine)
    ```

    ## Use instead
    Leave `engine` out, or name one of the engines in the message.
    """

    code = "R102"
    name = "wrong-engine"
