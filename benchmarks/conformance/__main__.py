"""Runs others' kernels on the simulator and says which of them match their references.

    python benchmarks/conformance/__main__.py SUITE CHECKOUT [--only TEXT] [--json FILE]
        [--seconds N] [--cases N] [--python PYTHON] [--verbose]

Suites, and the repositories that CHECKOUT is a working copy of:

- ``sdk-tests``: aws-neuron/aws-neuron-sdk, the unit tests of NKI
- ``sdk-examples``: aws-neuron/aws-neuron-sdk, the kernels of the documentation, current or at
  tag v2.26.0
- ``samples``: aws-neuron/nki-samples
- ``nkibench``: zhang677/AccelOpt
- ``nki-library``: aws-neuron/nki-library
- ``nki-library-traces``: the same, every decorated kernel by shapes only

Nothing of theirs is copied: tests are run where they stand, and drivers import kernels and
references by path. References in PyTorch need an interpreter that has it (``--python``).
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
from pathlib import Path

from table import report

SUITES = ("sdk-tests", "sdk-examples", "samples", "nkibench", "nki-library", "nki-library-traces")


def main(arguments: list[str] | None = None) -> int:
    """Run one suite; 0 if nothing fails that is not explained, else 1."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", default="", help="run the cases whose name contains this")
    parser.add_argument("--json", type=Path, help="write the rows to a file")
    parser.add_argument("--verbose", action="store_true", help="print passing cases one by one")
    parser.add_argument("--python", default=sys.executable, help="interpreter that runs the suite")
    parser.add_argument("--seconds", type=int, default=120, help="limit of one case")
    parser.add_argument("--cases", type=int, default=3, help="nki-library: cases a test function")
    options = parser.parse_args(arguments)
    if os.path.abspath(options.python) != os.path.abspath(sys.executable):
        # Some suites import kernels and references themselves.
        given = sys.argv[1:] if arguments is None else arguments
        return subprocess.call([options.python, str(Path(__file__).parent), *given])
    suite = importlib.import_module(options.suite.replace("-", "_"))
    rows = suite.run(options.checkout.resolve(), options)
    if not rows:
        print(f"nothing to run in {options.checkout}", file=sys.stderr)
        return 2
    return report(options.suite, rows, options.json, options.verbose)


if __name__ == "__main__":
    sys.exit(main())
