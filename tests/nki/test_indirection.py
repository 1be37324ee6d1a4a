"""Tiles whose columns are gathered or scattered: who may be, where, and with what."""

from __future__ import annotations

import pytest
from attrs import evolve

from accelopt_lsp.nki.arguments import parse_spec
from accelopt_lsp.nki.dtypes import get_dtype
from accelopt_lsp.nki.instructions import INSTRUCTIONS
from accelopt_lsp.nki.operands import Buffer, Dynamic, DynamicKind, Engine, OperandType
from accelopt_lsp.nki.targets import get_target


def tile(text: str) -> OperandType:
    """``bf16[32,16]``, ``@psum``, ``+32`` for the first partition, ``*32`` for an index there."""
    text, _, index = text.partition("*")
    text, _, start = text.partition("+")
    text, _, buffer = text.partition("@")
    spec = parse_spec(text)
    made = OperandType(
        spec.shape, spec.dtype, Buffer(buffer or "sbuf"), start_partition=int(start or 0)
    )
    if not index:
        return made
    offsets = OperandType(
        (spec.shape[0], 1), get_dtype("uint32"), Buffer.SBUF, start_partition=int(index)
    )
    return evolve(made, dynamic=Dynamic(DynamicKind.GATHER, offsets))


GATHERED, PLAIN = "bf16[32,16]*0", "bf16[32,16]"
PRODUCT = {"dst": "f32[16,16]@psum", "stationary": PLAIN, "moving": PLAIN}


@pytest.mark.parametrize(
    ("op", "operands", "attrs", "text"),
    [
        ("tensor_copy", {"dst": PLAIN, "src": GATHERED}, {}, ""),
        ("tensor_copy", {"dst": GATHERED, "src": PLAIN}, {}, ""),
        ("tensor_copy", {"dst": PLAIN, "src": GATHERED}, {"engine": Engine.GPSIMD}, "not gpsimd"),
        ("tensor_copy", {"dst": PLAIN, "src": "bf16[32,16]*32"}, {}, "src starts at partition 0"),
        ("tensor_copy", {"dst": PLAIN, "src": "bf16[32,16]+32*32"}, {}, ""),
        ("tensor_copy", {"dst": PLAIN, "src": "bf16[32,16]*16"}, {}, "multiple of 32"),
        (
            "tensor_copy",
            {"dst": GATHERED, "src": "bf16[32,16]+32"},
            {},
            "src starts at partition 32",
        ),
        ("tensor_copy", {"dst": GATHERED, "src": "bf16[32,16]@psum+32"}, {}, ""),
        (
            "tensor_copy",
            {"dst": GATHERED, "src": "bf16[32,16]@psum+32*32"},
            {},
            "the index of src starts at partition 32",
        ),
        (
            "activation",
            {"dst": "bf16[32,16]@psum*0", "data": PLAIN},
            {"engine": Engine.SCALAR, "op": "exp"},
            "cannot scatter to PSUM",
        ),
        ("tensor_tensor", {"dst": PLAIN, "data1": GATHERED, "data2": PLAIN}, {}, ""),
        ("tensor_tensor", {"dst": PLAIN, "data1": PLAIN, "data2": GATHERED}, {}, "data2 cannot"),
        ("reciprocal", {"dst": PLAIN, "data": GATHERED}, {}, "no operand can"),
        ("nc_matmul", {**PRODUCT, "moving": GATHERED}, {}, ""),
        ("nc_matmul", {**PRODUCT, "moving": GATHERED}, {"is_transpose": True}, "in a transpose"),
        (
            "nc_matmul",
            {**PRODUCT, "stationary": GATHERED},
            {"tile_position": (32, 0), "tile_size": (32, 128)},
            "tile_position (32, 0)",
        ),
        (
            "nc_matmul",
            {"dst": PRODUCT["dst"], "stationary": "f32[32,16]*0", "moving": "f32[32,16]"},
            {},
            "floats of 8 and 16 bits",
        ),
    ],
)
def test_indirect_operands(op, operands, attrs, text):
    types = {role: tile(given) for role, given in operands.items()}
    found = list(INSTRUCTIONS[op].violations(types, attrs, get_target("trn3")))
    indirect = [v for v in found if v.code == "R087"]
    if not text:
        assert indirect == []
        return
    assert text in indirect[0].message
    assert indirect[0].role in operands


def test_only_the_latest_generation_gathers():
    types = {"dst": tile(PLAIN), "src": tile(GATHERED)}
    found = INSTRUCTIONS["tensor_copy"].violations(types, {}, get_target("trn2"))
    assert "R095" in {v.code for v in found}
