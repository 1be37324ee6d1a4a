"""Limits on data types, operators and modes of instructions."""

from __future__ import annotations

from accelopt_lsp.analysis.rules.base import Rule


class ActivationBias(Rule):
    """## What it does
    Finds activations whose bias has a form or a type that the Scalar Engine does not take.

    ## Why
    A bias is a `[P, 1]` tile of a float type. Only from NeuronCore-v3 on, and only in the current
    dialect, it may be a number; the reciprocal of NeuronCore-v2 takes none at all.

    ## Example
    ```python
    nisa.activation(dst=y, op=nl.exp, data=x, bias=1.0)  # target=trn1
    ```

    ## Use instead
    ```python
    one = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=one, value=1.0)
    nisa.activation(dst=y, op=nl.exp, data=x, bias=one)
    ```
    """

    code = "R002"
    name = "activation-bias"


class ActivationScale(Rule):
    """## What it does
    Finds activations whose scale is a tile of another type than float32.

    ## Why
    The Scalar Engine reads scales in float32 only.

    ## Example
    ```python
    nisa.activation(dst=y, op=nl.exp, data=x, scale=scale_bf16)
    ```

    ## Use instead
    Keep scales in float32, or copy them into a float32 tile with `nisa.tensor_copy`.
    """

    code = "R003"
    name = "activation-scale"


class TooManyDimensions(Rule):
    """## What it does
    Finds operands with more dimensions than an instruction's access pattern has.

    ## Why
    An engine walks a partition in at most four nested loops, some instructions in fewer.

    ## Example
    ```python
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile_of_six_dimensions, axis=5)
    ```

    ## Use instead
    Merge neighbouring free dimensions with `reshape` first.
    """

    code = "R013"
    name = "too-many-dimensions"


class MemsetValue(Rule):
    """## What it does
    Finds constants that the type of the tile they fill cannot hold.

    ## Why
    `nisa.memset` writes the value as it is: a fraction or a number out of range is no value of an
    integer type, and packed types take 0 only.

    ## Example
    ```python
    counts = nl.ndarray((128, 8), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.memset(dst=counts, value=-1)
    ```

    ## Use instead
    A value of that type, or a tile of a type that has the value.
    """

    code = "R067"
    name = "memset-value"


class DoubleRow(Rule):
    """## What it does
    Finds matrix products in double-row mode whose operands do not fit that mode.

    ## Why
    The mode packs two rows of 8-bit floats: operands are `[K, 2, M]` and `[K, 2, N]`, from
    NeuronCore-v3 on, without column tiling and without transpose.

    ## Example
    ```python
    nisa.nc_matmul(
        dst=acc, stationary=w_bf16, moving=x_bf16, perf_mode=nisa.matmul_perf_mode.double_row
    )
    ```

    ## Use instead
    Operands in `float8_e4m3` or `float8_e5m2` whose first free dimension is 2, or no `perf_mode`.
    """

    code = "R072"
    name = "double-row"


class OperatorTypes(Rule):
    """## What it does
    Finds operators that do not go with each other, with data types, or with the instruction.

    ## Why
    Bitvec operators (`bitwise_and`, `left_shift`, `invert` and so on) work on bits of integer
    types, arithmetic ones on float32 values. One instruction does one or the other, some do
    arithmetic only, and a few restrict the types of scalars.

    ## Example
    ```python
    nisa.tensor_scalar(
        dst=y, data=x, op0=nl.bitwise_and, operand0=15, op1=nl.multiply, operand1=2.0
    )
    ```

    ## Use instead
    One instruction for the bits and one for the arithmetic; a view of a float tile's bits as an
    integer type.
    """

    code = "R097"
    name = "operator-types"
