"""``nki.isa`` calls of the random number generators."""

from __future__ import annotations

from accelopt_lsp.nki.dialects import instruction

APIS = (
    instruction(
        "rng",
        "Random bits.",
        legacy=None,
        current="(dst, engine='vector', name=None)",
    ),
    instruction(
        "rand2",
        "Random numbers, uniform between two bounds (NeuronCore-v4).",
        legacy=None,
        current="(dst, min, max, name=None)",
    ),
    instruction(
        "set_rng_seed",
        "Seeds the generator of the Vector Engine.",
        legacy=None,
        current="(src_seeds, name=None)",
    ),
    instruction(
        "rand_set_state",
        "Sets the state of a generator, lane by lane.",
        legacy=None,
        current="(src_seeds, engine='gpsimd', name=None)",
    ),
    instruction(
        "rand_get_state",
        "Reads the state of a generator, lane by lane.",
        legacy=None,
        current="(dst, engine='gpsimd', name=None)",
    ),
    instruction(
        "dropout",
        "Replaces elements by zeros at random.",
        legacy="(data, prob, *, mask=None, dtype=None)",
        current="(dst, data, prob, name=None)",
    ),
)
