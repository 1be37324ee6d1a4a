"""Numerics of data movement."""

from __future__ import annotations

import numpy as np

from accelopt_lsp.profiler.simulator.numerics.base import (
    Attributes,
    Inputs,
    Results,
    computes,
)
from accelopt_lsp.profiler.simulator.numerics.operators import as_float


@computes("dma_transpose")
def _dma_transpose(inputs: Inputs, attrs: Attributes) -> Results:
    return {"dst": np.transpose(inputs["src"], attrs["axes"])}


@computes("dma_compute")
def _dma_compute(inputs: Inputs, attrs: Attributes) -> Results:
    """Sums in float32, in the order of the sources (nisa.dma_compute)."""
    sources = [inputs[f"src{i}"] for i in range(len(inputs)) if f"src{i}" in inputs]
    total = as_float(sources[0])
    for source in sources[1:]:
        total = total + as_float(source).reshape(total.shape)
    return {"dst": total}
