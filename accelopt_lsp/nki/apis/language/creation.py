"""Functions of ``nki.language`` that create tensors."""

from __future__ import annotations

from accelopt_lsp.nki.dialects import Role, api

APIS = (
    api(
        "nl.ndarray",
        Role.CREATION,
        "An uninitialised tensor.",
        legacy="(shape, dtype, *, buffer=None, name='')",
        current="(shape, dtype, buffer='sbuf', name='', address=None)",
    ),
    api(
        "nl.zeros",
        Role.CREATION,
        "A tensor of zeros; in PSUM it starts an accumulation.",
        legacy="(shape, dtype, *, buffer=None, name='')",
        current="(shape, dtype, buffer='sbuf', name='')",
    ),
    api(
        "nl.ones",
        Role.CREATION,
        "A tensor of ones.",
        legacy="(shape, dtype, *, buffer=None, name='')",
        current="(shape, dtype, buffer='sbuf', name='')",
    ),
    api(
        "nl.full",
        Role.CREATION,
        "A tensor filled with one value.",
        legacy="(shape, fill_value, dtype, *, buffer=None, name='')",
        current="(shape, fill_value, dtype, buffer='sbuf', name='')",
    ),
    api(
        "nl.zeros_like",
        Role.CREATION,
        "Zeros in the shape of another tensor.",
        legacy="(a, dtype=None, *, buffer=None, name='')",
        current="(x, dtype=None, buffer=None, name='')",
    ),
    api(
        "nl.empty_like",
        Role.CREATION,
        "An uninitialised tensor in the shape of another.",
        legacy="(a, dtype=None, *, buffer=None, name='')",
        current="(x, dtype=None, buffer=None, name='')",
    ),
    api(
        "nl.shared_constant",
        Role.CREATION,
        "A constant that is stored in HBM.",
        legacy="(constant, dtype=None)",
        current="(constant)",
    ),
    api(
        "nl.shared_identity_matrix",
        Role.CREATION,
        "An identity matrix: a constant in HBM (legacy), a tile in SBUF (current).",
        legacy="(n, dtype='uint8')",
        current="(n, dtype='uint8', dst=None)",
    ),
)
