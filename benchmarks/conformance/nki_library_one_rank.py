"""A test of nki-library with sizes of ours: the transformer on one rank.

The library's own cases take several ranks and the sizes of a 70B model. This file is put beside
their test module and calls it; both references in PyTorch that the library has are compared with.
"""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest

TESTS = importlib.import_module(
    "test.integration.nkilib.experimental.transformer.test_transformer_tkg"
)
REFERENCE = "llama3_transformer_fwd_tkg_torch"
SIZES = {
    "TP": 1,
    "BATCH": 4,
    "S_TKG": 1,
    "S_CTX": 256,
    "Q_HEADS": 1,
    "D_HEAD": 128,
    "H": 1024,
    "I": 256,
    "LNC": 2,
    "REL_TOL": 2.5,
}


REFERENCES = {
    place: importlib.import_module(f"nkilib_src.nkilib.{place}.transformer.transformer_tkg_torch")
    for place in ("core", "experimental")
}


def run(place: str, manager: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel against one of the references."""
    monkeypatch.setattr(TESTS, REFERENCE, getattr(REFERENCES[place], REFERENCE))
    sizes = {getattr(TESTS, f"{name}_DIM"): size for name, size in SIZES.items()}
    options = SimpleNamespace(tensors={TESTS.DIMS_TENSOR: sizes})
    TESTS.TestTransformerTKG().prepare_test_parametrized(manager, options)


def test_core(test_manager: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run("core", test_manager, monkeypatch)


def test_experimental(test_manager: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run("experimental", test_manager, monkeypatch)
