"""Names of the functions and operators that instructions take."""

ACTIVATION_FUNCTIONS = frozenset(
    (
        "copy square sigmoid relu gelu gelu_dx gelu_apprx_tanh gelu_apprx_sigmoid silu silu_dx "
        "tanh softplus mish erf erf_dx exp sign abs log sin arctan sqrt rsqrt reciprocal"
    ).split()
)


BINARY_OPERATORS = frozenset(
    (
        "add subtract multiply maximum minimum divide power equal not_equal greater_equal "
        "greater less_equal less logical_and logical_or logical_xor bitwise_and bitwise_or "
        "bitwise_xor left_shift right_shift"
    ).split()
)


UNARY_OPERATORS = frozenset({"abs", "rsqrt", "reciprocal", "square", "relu"})


REDUCTION_OPERATORS = frozenset(
    (
        "add multiply maximum minimum bitwise_and bitwise_or bitwise_xor logical_and logical_or "
        "logical_xor subtract"
    ).split()
)
