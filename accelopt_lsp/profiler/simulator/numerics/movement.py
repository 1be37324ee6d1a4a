"""Numerics of data movement."""

from __future__ import annotations

import numpy as np

from accelopt_lsp.profiler.simulator.numerics.base import (
    Attributes,
    Inputs,
    Results,
    computes,
)


@computes("dma_transpose")
def _dma_transpose(inputs: Inputs, attrs: Attributes) -> Results:
    return {"dst": np.transpose(inputs["src"], attrs["axes"])}
