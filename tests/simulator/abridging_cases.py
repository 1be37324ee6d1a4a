"""Kernel texts and helpers of the tests of abridged traces."""

from __future__ import annotations

from typing import Any

from accelopt_lsp.nki.dtypes import get_dtype
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.profiler.simulator import hook, kernels
from accelopt_lsp.profiler.simulator.library import OPERATOR_NAMES
from accelopt_lsp.profiler.simulator.session import Session
from accelopt_lsp.profiler.simulator.source import Sources

LEGACY = """
import numpy as np
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl

p = nl.arange(128)[:, None]
f = nl.arange(64)[None, :]
count = 0
settings = {"step": 128}


class Counter:
    total = 0

    def __init__(self):
        self.number = 0


def load(x, row):
    return nl.load(x[p + row, f])


def late(x, number):
    return load(x, 128 if number > 6 else 0)


def numbered(x):
    global count
    count += 1
    return load(x, 0)


@nki.jit
def kernel(x):
    out = nl.ndarray((4096, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    blocks = nl.ndarray((16, nl.par_dim(128), 64), dtype=x.dtype, buffer=nl.sbuf)
    grid = nl.ndarray((16, 8, nl.par_dim(128), 64), dtype=x.dtype, buffer=nl.sbuf)
    wide = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
    sums = nl.ndarray((8, nl.par_dim(128), 64), dtype=x.dtype, buffer=nl.sbuf)
    psum = nl.zeros((64, 64), dtype=np.float32, buffer=nl.psum)
    a = nl.load(x[p, f])
    b = nl.load(x[p + 128, f])
    n, kept, table, counter, view = 0, [], {}, Counter(), a[:, 0:64]
{body}
    nl.store(out[p, f], a)
    return out
"""

CURRENT = """
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray((4096, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    a = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    wide = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=wide, value=0.0)
    nisa.dma_copy(dst=a, src=x[0:128, :])
{body}
    nisa.dma_copy(dst=out[0:128, :], src=a)
    return out
"""


def source(template: str, body: str) -> str:
    lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    return template.replace("{body}", lines)


def trace(text: str, *, abridged: bool, **options: Any) -> Session:
    """Trace a kernel's text."""
    hook.install()
    space: dict[str, Any] = {"__name__": "case"}
    exec(compile(text, "case.py", "exec"), space)  # noqa: S102 - one of the texts below
    kernel = space["kernel"]
    target = get_target("trn1" if "neuronxcc" in text else "trn2")
    sources = Sources("case.py", {"case.py": text})
    session = Session(
        target,
        kernel.dialect,
        sources,
        full=False,
        names=OPERATOR_NAMES,
        abridged=abridged,
        **options,
    )
    kernels.execute(kernel, [kernels.TensorInput((4096, 64), get_dtype("float32"))], {}, session)
    return session


def compare(short: Session, full: Session) -> None:
    """See that two traces are the same in every number."""
    assert full.abridging is None
    assert short.abridging is not None
    assert short.issued == full.issued
    assert short.trace.templates == full.trace.templates
    assert short.trace.records == full.trace.records
    assert short.trace.storages == full.trace.storages
    assert short.trace.iterations == full.trace.iterations
    assert list(short.notes) == list(full.notes)


def both(text: str) -> Session:
    """The abridged trace, which is the same as the full one."""
    short = trace(text, abridged=True)
    compare(short, trace(text, abridged=False))
    return short


# What is abridged: iterations that run, of all.

ABRIDGED = {
    "tiles of a tensor": (
        """
for i in nl.affine_range(32):
    nl.store(out[p + 128 * i, f], nl.exp(load(x, 128 * i)))
""",
        (3, 32),
    ),
    "a nest": (
        """
for i in nl.affine_range(16):
    for j in nl.affine_range(8):
        for k in nl.affine_range(4):
            wide[p, f + 64 * (j + 8 * (k % 2))] = nl.exp(load(x, 128 * i))
""",
        None,
    ),
    "a mask that cuts the last tile": (
        """
for i in nl.affine_range(32):
    nl.store(out[p + 130 * i, f], nl.load(x[p + 130 * i, f], mask=p + 130 * i < 4096),
             mask=p + 130 * i < 4096)
""",
        (4, 32),
    ),
    "a mask that begins in the middle": (
        """
for i in nl.affine_range(32):
    nl.store(out[p + 128 * i, f], a, mask=p + 128 * i >= 1300)
""",
        None,
    ),
    "a tile carried on": (
        """
for i in nl.sequential_range(20):
    a = nl.add(a, load(x, 128 * i))
""",
        (4, 20),
    ),
    "two tiles that swap": (
        """
for i in nl.sequential_range(20):
    a, b = nl.add(a, b), a
""",
        (5, 20),
    ),
    "sums in place": (
        """
for i in nl.affine_range(20):
    psum += nl.matmul(b[:, 0:64], load(x, 128 * i), transpose_x=True)
""",
        None,
    ),
    "blocks that are made and used": (
        """
for i in nl.affine_range(16):
    blocks[i, p, f] = load(x, 128 * i)
for i in nl.affine_range(16):
    nl.store(out[p + 128 * i, f], nl.exp(blocks[15 - i]))
""",
        (5, 32),
    ),
    "blocks of a nest, some used later": (
        """
for i in nl.affine_range(16):
    for j in nl.affine_range(8):
        grid[i, j, p, f] = load(x, 128 * i + j)
for i in nl.affine_range(16):
    for j in nl.affine_range(8):
        nl.store(out[p + 128 * i, f], grid[i, j, p, f])
for i in range(3):
    nl.store(out[p + 128 * i, f], grid[5, i, p, f])
""",
        None,
    ),
    "the block before": (
        """
blocks[0, p, f] = a
for i in nl.sequential_range(1, 16):
    blocks[i, p, f] = nl.exp(blocks[i - 1, p, f])
""",
        None,
    ),
    "a block that Python holds": (
        """
for i in nl.affine_range(16):
    blocks[i, p, f] = load(x, 0)
    a = blocks[i]
nl.store(out[p, f], blocks[14])
""",
        None,
    ),
    "tensors with blocks of an iteration's own": (
        """
for i in nl.affine_range(10):
    own = nl.ndarray((8, nl.par_dim(128), 64), dtype=x.dtype, buffer=nl.sbuf)
    for j in nl.affine_range(8):
        own[j, p, f] = load(x, 64 * j + 128 * i)
    for j in nl.affine_range(8):
        nl.store(out[p + 64 * j + 128 * i, f], own[j, p, f])
""",
        None,
    ),
    "a branch on the first iteration": (
        """
for i in nl.affine_range(20):
    if i == 0:
        b = nl.exp(b)
    nl.store(out[p + 128 * i, f], b)
""",
        None,
    ),
    "branches at both ends": (
        """
for i in nl.affine_range(32):
    if 3 <= i < 30:
        nl.store(out[p + 128 * i, f], b)
    else:
        a = nl.exp(b)
""",
        None,
    ),
    "a loop reduction": (
        """
for i in nl.affine_range(10):
    for j in nl.affine_range(8):
        tile = nl.exp(load(x, 128 * i))
        sums[j, p, f] = nl.loop_reduce(tile, np.add, [i], dtype=np.float32)
""",
        None,
    ),
    "steps and bounds": (
        """
for i in nl.affine_range(30, 2, -2):
    nl.store(out[p + 64 * i, f], load(x, 64 * (i // 2)))
""",
        (3, 14),
    ),
    "the index of a loop that has ended": (
        """
for i in nl.affine_range(20):
    b = load(x, 128 * i)
nl.store(out[p + 128 * i, f], b)
a = nl.exp(b)
""",
        None,
    ),
    "a call that is held back at the end": (
        """
for i in nl.affine_range(20):
    b = nl.exp(a)
    a = nl.exp(b)
""",
        None,
    ),
}
