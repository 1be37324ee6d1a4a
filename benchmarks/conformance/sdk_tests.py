"""AWS's own unit tests of NKI: ``nki/test`` of github.com/aws-neuron/aws-neuron-sdk."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from pytest_runs import run_tests
from table import Row

EXPLAINED = {
    "test_nki_isa_activation.py": "compares a result that it asks for in bfloat16 (2^-9 apart) "
    "within 1e-5 of float32",
}
"""Beginning of a test's id to why it cannot pass."""


def find(checkout: Path) -> Path:
    """The folder of the tests in a checkout of the SDK, or the folder itself."""
    for folder in (checkout / "nki/test", checkout / "general/nki/test", checkout / "test"):
        if any(folder.glob("test_nki_*.py")):
            return folder
    return checkout


def run(checkout: Path, options: Namespace) -> list[Row]:
    """Every test of the folder, unmodified."""
    folder = find(checkout)
    arguments = [p.name for p in sorted(folder.glob("test_*.py"))]
    if options.only:
        arguments = [a for a in arguments if options.only in a]
    return run_tests(
        folder,
        arguments,
        python=options.python,
        seconds=options.seconds,
        explained=EXPLAINED,
    )
