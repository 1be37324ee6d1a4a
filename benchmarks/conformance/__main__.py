"""Runs over kernels that other people wrote: what runs, what is right, and why not.

    python benchmarks/conformance sdk-tests CHECKOUT      AWS's unit tests of NKI (nki/test)
    python benchmarks/conformance sdk-examples CHECKOUT   the legacy examples of SDK 2.26
    python benchmarks/conformance nkibench CHECKOUT       the 14 kernels of NKIBench, five seeds
    python benchmarks/conformance nki-library CHECKOUT    nki-library's own integration tests

CHECKOUT is a working copy of github.com/aws-neuron/aws-neuron-sdk (current, and at v2.26.0 for
sdk-examples), zhang677/AccelOpt or aws-neuron/nki-library. Their files run unmodified. What the
tests themselves import (PyTorch, scipy, plugins of pytest) must be installed in the environment
that runs this script.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))
SUITES = ("sdk-tests", "sdk-examples", "nkibench", "nki-library")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Run kernels of other people.")
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", default="", help="parts of names, separated by commas")
    parser.add_argument("--seconds", type=float, default=600, help="limit of one file or folder")
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")
    options = parser.parse_args(arguments)
    if not options.checkout.is_dir():
        print(f"no such folder: {options.checkout}", file=sys.stderr)
        return 2
    suite = importlib.import_module(options.suite.replace("-", "_"))
    only = tuple(filter(None, options.only.split(",")))
    report = suite.run(options.checkout.resolve(), only, options.seconds)
    report.show(Console(highlight=False, width=None if sys.stdout.isatty() else 160))
    if options.json:
        options.json.write_text(json.dumps(report.to_json(), indent=2) + "\n", "utf-8")
    return 0 if report.fine else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
