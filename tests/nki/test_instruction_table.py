"""The instruction table is complete: every id has all of its layers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from accelopt_lsp.nki.apis import APIS
from accelopt_lsp.nki.costs import DMA_INSTRUCTIONS, FORMULAS, TENSOR_ENGINE_INSTRUCTIONS, has_cost
from accelopt_lsp.nki.dialects import Api, Dialect, Role
from accelopt_lsp.nki.instructions import INSTRUCTIONS
from accelopt_lsp.nki.lowering import has_lowering
from accelopt_lsp.nki.operands import Engine

COST_UNKNOWN = frozenset(
    {
        "round_to_integer",
        "remainder",
        "tensor_partition_reduce",
        "nonzero_with_count",
        "sequence_bounds",
        "nc_n_gather",
        "rng",
        "set_rng_seed",
        "rand_set_state",
        "rand_get_state",
        "register_move",
        "register_load",
        "register_store",
        "sendrecv",
        "core_barrier",
    }
)
"""Instructions whose cost no source gives; totals over them are not printed."""
NAMES_ITS_DESTINATION = frozenset(
    {
        "nisa.dma_copy",
        "nisa.tensor_scalar_cumulative",
        "nisa.tensor_copy_dynamic_dst",
        "nisa.tensor_copy_predicated",
        "nisa.select_reduce",
        "nisa.nc_stream_shuffle",
    }
)
"""Legacy calls that take ``dst``; all others return a tile."""
WITHOUT_DESTINATION = frozenset(
    {"register_move", "register_load", "core_barrier", "set_rng_seed", "rand_set_state"}
)
"""Their destination is a register or an engine's state, or there is none."""
SOURCE_FIRST = frozenset(
    {
        "nisa.sendrecv",
        "nisa.core_barrier",
        "nisa.set_rng_seed",
        "nisa.rand_set_state",
        "nisa.topk",
    }
)
"""Calls whose first parameter is not named dst."""
ISSUED_BY_LOOPS = frozenset({"nl.loop_reduce"})
"""Its instructions depend on the iteration, so the adapters issue them."""

instructions = pytest.mark.parametrize("instruction", INSTRUCTIONS.values(), ids=list(INSTRUCTIONS))
apis = pytest.mark.parametrize("api", APIS.values(), ids=list(APIS))


@instructions
def test_instruction_is_described(instruction):
    assert instruction.summary.endswith(".")
    assert instruction.semantics
    assert instruction.engines
    assert 2 <= instruction.since_generation <= 4
    roles = [o.role for o in instruction.operands]
    assert len(roles) == len(set(roles))
    if instruction.id not in WITHOUT_DESTINATION:
        assert roles[0] == "dst"
        assert instruction.operand("dst").written
    assert instruction.operand("no such role") is None


@instructions
def test_instruction_has_a_call(instruction):
    calls = [a for a in APIS.values() if a.instruction == instruction.id]
    assert calls, "no dialect can write it"
    assert Dialect.CURRENT in {d for a in calls for d in a.signatures}


@instructions
def test_instruction_has_a_cost_or_is_listed_as_unknown(instruction):
    assert has_cost(instruction.id) != (instruction.id in COST_UNKNOWN)


def test_no_layer_speaks_of_instructions_that_do_not_exist():
    ids = set(INSTRUCTIONS)
    assert {a.instruction for a in APIS.values() if a.instruction} <= ids
    assert set(FORMULAS) | TENSOR_ENGINE_INSTRUCTIONS | DMA_INSTRUCTIONS <= ids


def test_dma_is_an_engine_of_dma_instructions_only():
    on_dma = {i.id for i in INSTRUCTIONS.values() if Engine.DMA in i.engines}
    assert on_dma - COST_UNKNOWN == DMA_INSTRUCTIONS


@apis
def test_api_is_described(api: Api):
    assert api.summary.endswith(".")
    assert api.signatures
    space, _, name = api.name.partition(".")
    assert space in ("nl", "nisa")
    assert name


@apis
def test_api_that_computes_has_a_lowering(api: Api):
    computes = api.role in (Role.INSTRUCTION, Role.COMPUTE)
    assert has_lowering(api.name) == (computes and api.name not in ISSUED_BY_LOOPS)


@apis
def test_instruction_calls_take_a_destination_in_the_current_dialect_only(api: Api):
    if api.role is not Role.INSTRUCTION:
        return
    if api.name not in SOURCE_FIRST:
        assert api.signatures[Dialect.CURRENT].parameters[0] == "dst"
    legacy = api.signatures.get(Dialect.LEGACY)
    if legacy is not None:
        assert ("dst" in legacy.parameters) == (api.name in NAMES_ITS_DESTINATION)


def test_the_table_needs_no_numpy():
    code = (
        "import sys; from accelopt_lsp.nki import lowering, composites, instruction_calls, costs;"
        "print([m for m in ('numpy', 'ml_dtypes', 'openai') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
