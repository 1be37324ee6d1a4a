"""Names of the functions and operators that instructions take."""

from __future__ import annotations

ACTIVATION_FUNCTIONS = frozenset(
    (
        "copy square sigmoid relu prelu gelu gelu_dx gelu_apprx_tanh gelu_apprx_sigmoid "
        "gelu_apprx_sigmoid_dx silu silu_dx tanh softplus mish erf erf_dx exp sign abs log sin "
        "arctan sqrt rsqrt reciprocal"
    ).split()
)
"""What the Scalar Engine applies (nki.api.shared, table of activation functions)."""


COMPARISONS = frozenset("equal not_equal greater_equal greater less_equal less".split())


BINARY_OPERATORS = COMPARISONS | frozenset(
    (
        "add subtract multiply maximum minimum divide power abs_max abs_min logical_and "
        "logical_or logical_xor bitwise_and bitwise_or bitwise_xor left_shift right_shift"
    ).split()
)


UNARY_OPERATORS = frozenset(
    {"abs", "rsqrt", "reciprocal", "square", "relu", "logical_not", "invert"}
)
"""Operators whose operand is left out, or 0."""


OPERATORS_OF_V4 = frozenset({"abs_max", "abs_min"})
"""Operators that engines before NeuronCore-v4 do not have (nki.language)."""


BITVEC_OPERATORS = frozenset(
    {"invert", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"}
)
"""Operators on bit patterns: integer types only, Vector Engine only, no cast on the way."""


REDUCTION_OPERATORS = frozenset(
    (
        "add multiply maximum minimum bitwise_and bitwise_or bitwise_xor logical_and logical_or "
        "logical_xor subtract abs_max abs_min"
    ).split()
)


ACCUMULATIONS = frozenset({"add", "subtract", "multiply", "maximum", "minimum"})
"""What the Vector Engine's accumulators can do (tensor_scalar_reduce and its siblings)."""


PARTITION_REDUCTIONS = frozenset({"add", "average", "maximum", "bitwise_or", "bitwise_and"})
"""Operators of tensor_partition_reduce."""


ACTIVATE_FORMS = frozenset(
    {
        ("multiply", "add"),
        ("multiply", "subtract"),
        ("multiply", "bypass"),
        ("add", "bypass"),
        ("subtract", "bypass"),
        ("bypass", "bypass"),
    }
)
"""Pairs (op0, op1) of activate2."""


SCALAR_ENGINE_FORMS = frozenset({("multiply",), ("add",), ("multiply", "add")})
"""Operators of tensor_scalar that the Scalar Engine of NeuronCore-v3 runs (nisa.tensor_scalar)."""
