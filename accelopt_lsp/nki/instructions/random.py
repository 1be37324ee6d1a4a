"""Instructions of the random number generators."""

from __future__ import annotations

from collections.abc import Iterator

from accelopt_lsp.nki.dtypes import Kind
from accelopt_lsp.nki.instructions.base import (
    DATA,
    DST,
    SBUF_ONLY,
    Attributes,
    Check,
    Instruction,
    Operand,
    Operands,
)
from accelopt_lsp.nki.instructions.checks import (
    all_of,
    expect_free,
    free_size,
    types_of,
)
from accelopt_lsp.nki.instructions.violations import Violation
from accelopt_lsp.nki.operands import Buffer, Engine
from accelopt_lsp.nki.targets import Target

STATE_WORDS = {Engine.GPSIMD: 6, Engine.VECTOR: 24}
"""32-bit words of one lane's state (nisa.rand_set_state)."""


def _since(instruction: str, engine: Engine, generation: int) -> Check:
    def check(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
        if attrs.get("engine") == engine and target.generation < generation:
            yield Violation(
                "R102",
                f"{instruction} runs on the {engine} engine from NeuronCore-v{generation} on; "
                f"{target.name} is NeuronCore-v{target.generation}",
            )

    return check


def _bounds(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    low, high = attrs.get("min"), attrs.get("max")
    if isinstance(low, int | float) and isinstance(high, int | float) and low >= high:
        yield Violation("R101", f"rand2: min must be below max, got min={low} and max={high}")


def _seed(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    seeds = operands["src_seeds"]
    if (seeds.partitions, seeds.free) != (1, 1):
        yield Violation(
            "R027",
            f"set_rng_seed: src_seeds must be [1, 1], it is {list(seeds.shape)}",
            "src_seeds",
        )
    if seeds.dtype.nbytes != 4:
        yield Violation(
            "R097",
            f"set_rng_seed: src_seeds must have a 32-bit type, it is {seeds.dtype}",
            "src_seeds",
        )


def _state(instruction: str, role: str) -> Check:
    def check(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
        engine = Engine(attrs["engine"])
        yield from expect_free(instruction, role, operands[role], STATE_WORDS.get(engine, 6))
        if role == "dst" and operands[role].buffer is Buffer.PSUM and target.generation < 4:
            yield Violation(
                "R034",
                f"{instruction}: dst must be in SBUF on NeuronCore-v{target.generation}, it is in "
                "PSUM",
                role,
            )

    return check


def _probability(operands: Operands, attrs: Attributes, target: Target) -> Iterator[Violation]:
    prob, data, dst = operands.get("prob"), operands["data"], operands.get("dst")
    if dst is not None and dst.dtype != data.dtype:
        yield Violation(
            "R097",
            f"dropout: dst is {dst.dtype} and data is {data.dtype}; dropout does not cast, so both "
            "must have one type",
            "dst",
        )
    if prob is None:
        return
    if data.dtype.is_float and not prob.dtype.is_float:
        yield Violation("R097", f"dropout: prob must be a float type, it is {prob.dtype}", "prob")
    elif not data.dtype.is_float and prob.dtype.name != "float32":
        yield Violation(
            "R097",
            f"dropout: prob must be float32 for data of {data.dtype}, it is {prob.dtype}",
            "prob",
        )


_WORDS = frozenset({"uint32"})
_UNIFORM = frozenset({"float8_e4m3", "float8_e5m2", "float16", "bfloat16", "float32", "tfloat32"})

INSTRUCTIONS = (
    Instruction(
        "rng",
        "Random bits: 32 for every element, of which the type keeps the lowest.",
        "dst = random bits",
        (DST,),
        (Engine.VECTOR, Engine.GPSIMD),
        ("engine",),
        ("integer types", "GpSimd from trn2 on, and in SBUF"),
        check=all_of(
            _since("rng", Engine.GPSIMD, 3),
            types_of("rng", "dst", "an integer type", kinds=(Kind.SIGNED, Kind.UNSIGNED)),
        ),
    ),
    Instruction(
        "rand2",
        "Random numbers, uniform between two bounds (NeuronCore-v4).",
        "dst ~ U[min, max]",
        (
            DST,
            Operand("min", vector=True, optional=True),
            Operand("max", vector=True, optional=True),
        ),
        (Engine.VECTOR,),
        ("min", "max"),
        ("from trn3 on", "min below max, float32 numbers or [P, 1] vectors"),
        since_generation=4,
        elementwise=True,
        check=all_of(
            _bounds,
            types_of(
                "rand2",
                "dst",
                "a float or integer type of 8 to 32 bits (float8_e4m3fn apart)",
                names=_UNIFORM,
                kinds=(Kind.SIGNED, Kind.UNSIGNED),
            ),
        ),
    ),
    Instruction(
        "set_rng_seed",
        "Seeds the generator of the Vector Engine.",
        "state = f(src_seeds)",
        (Operand("src_seeds"),),
        (Engine.VECTOR,),
        (),
        ("a [1, 1] tile of a 32-bit type",),
        check=_seed,
    ),
    Instruction(
        "rand_set_state",
        "Sets the state of a generator, lane by lane.",
        "state[p] = src_seeds[p]",
        (Operand("src_seeds", SBUF_ONLY),),
        (Engine.GPSIMD, Engine.VECTOR),
        ("engine",),
        ("from trn2 on, the Vector Engine's from trn3 on", "6 words a lane (Vector: 24), uint32"),
        since_generation=3,
        check=all_of(
            _since("rand_set_state", Engine.VECTOR, 4),
            _state("rand_set_state", "src_seeds"),
            types_of("rand_set_state", "src_seeds", "uint32", names=_WORDS),
        ),
    ),
    Instruction(
        "rand_get_state",
        "Reads the state of a generator, lane by lane.",
        "dst[p] = state[p]",
        (DST,),
        (Engine.GPSIMD, Engine.VECTOR),
        ("engine",),
        (
            "from trn2 on, the Vector Engine's from trn3 on",
            "6 words a lane (Vector: 24), uint32",
            "PSUM from trn3 on",
        ),
        since_generation=3,
        check=all_of(
            _since("rand_get_state", Engine.VECTOR, 4),
            _state("rand_get_state", "dst"),
            types_of("rand_get_state", "dst", "uint32", names=_WORDS),
        ),
    ),
    Instruction(
        "dropout",
        "Replaces elements by zeros at random, with a probability that is a number or one a "
        "partition.",
        "dst = data * (random >= prob)",
        (DST, DATA, Operand("prob", vector=True, optional=True)),
        (Engine.VECTOR,),
        ("prob",),
        ("prob of a float type, of float32 where data is integer", "dst of the type of data"),
        elementwise=True,
        check=all_of(_probability, free_size("dropout", "dst", "data")),
    ),
)
