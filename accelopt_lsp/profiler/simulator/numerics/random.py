"""Numerics of the random number generators.

No document gives the streams of the hardware's generators. These are ours: each lane of an engine
has a state of 32-bit words, the last of which counts the numbers drawn; a number is a hash of the
other words and the count. Equal seeds give equal numbers, and a state that was read and set again
continues where it was (``docs/numerics.md``).
"""

from __future__ import annotations

import numpy as np

from accelopt_lsp.nki.instructions.random import STATE_WORDS
from accelopt_lsp.nki.operands import Engine
from accelopt_lsp.profiler.simulator.elements import Array
from accelopt_lsp.profiler.simulator.numerics.base import (
    REGISTERS,
    REMARKS,
    Attributes,
    Inputs,
    Results,
    computes,
    finished,
    like,
    operand_of,
)
from accelopt_lsp.profiler.simulator.numerics.operators import as_float

_GOLDEN = np.uint32(0x9E3779B9)


def _mixed(values: Array) -> Array:
    """A bijection of 32-bit words in which every input bit reaches every output bit."""
    x = values.astype(np.uint32)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x85EBCA6B)
    x ^= x >> np.uint32(13)
    x *= np.uint32(0xC2B2AE35)
    x ^= x >> np.uint32(16)
    return x


def seeded(seed: int, engine: str, lanes: int = 128) -> Array:
    """State of all lanes: the seed, the lane, zeros, and a count of 0."""
    state = np.zeros((lanes, STATE_WORDS[Engine(engine)]), dtype=np.uint32)
    state[:, 0] = np.uint32(seed & 0xFFFFFFFF)
    state[:, 1] = np.arange(lanes)
    return state


def draw(state: Array, columns: int) -> tuple[Array, Array]:
    """Numbers ``[P, columns]`` of 32 bits, and the state afterwards.

    Args:
        state: ``[P, words]``.
    """
    key = np.full(state.shape[0], _GOLDEN, dtype=np.uint32)
    for word in state[:, :-1].T:
        key = _mixed(key ^ word) + _GOLDEN
    counts = state[:, -1:] + np.arange(columns, dtype=np.uint32)
    numbers = _mixed(_mixed(counts * _GOLDEN + key[:, None]) ^ key[:, None])
    after = state.copy()
    after[:, -1] += np.uint32(columns)
    return numbers, after


def fractions(numbers: Array) -> Array:
    """Numbers from 0 up to 1 in float32: the upper 24 bits."""
    return (numbers >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def _columns(attrs: Attributes) -> int:
    return int(attrs["shapes"]["dst"][1])


@computes("rng")
def _rng(inputs: Inputs, attrs: Attributes) -> Results:
    """The lowest bits that the destination has room for."""
    numbers, after = draw(inputs[REGISTERS], _columns(attrs))
    return {"dst": finished(numbers, attrs), REGISTERS: after}


@computes("rand2")
def _rand2(inputs: Inputs, attrs: Attributes) -> Results:
    numbers, after = draw(inputs[REGISTERS], _columns(attrs))
    low, high = (as_float(operand_of(inputs, attrs, n, numbers)) for n in ("min", "max"))
    values = np.minimum(low + fractions(numbers) * (high - low), high)
    return {"dst": values, REGISTERS: after}


@computes("set_rng_seed")
def _set_rng_seed(inputs: Inputs, attrs: Attributes) -> Results:
    seed = np.ascontiguousarray(inputs["src_seeds"]).view(np.uint32).reshape(-1)[0]
    return {REGISTERS: seeded(int(seed), attrs["engine"])}


@computes("rand_set_state")
def _rand_set_state(inputs: Inputs, attrs: Attributes) -> Results:
    seeds = inputs["src_seeds"]
    return {REGISTERS: seeds.reshape(seeds.shape[0], -1)}


@computes("rand_get_state")
def _rand_get_state(inputs: Inputs, attrs: Attributes) -> Results:
    return {"dst": inputs[REGISTERS].copy()}


@computes("dropout")
def _dropout(inputs: Inputs, attrs: Attributes) -> Results:
    """Numbers that are no probabilities drop nothing; what they do is undefined."""
    data = inputs["data"]
    numbers, after = draw(inputs[REGISTERS], _columns(attrs))
    given = operand_of(inputs, attrs, "prob", data)
    prob = as_float(given)
    if np.any(prob < 0) or np.any(prob > 1):
        REMARKS.append("dropout: prob is below 0 or above 1 somewhere; nothing is dropped there")
    kept = like(fractions(numbers), data) >= prob
    kept |= (prob < 0) | (prob > 1)
    return {"dst": np.where(kept, data, data.dtype.type(0)), REGISTERS: after}
