"""Abridged traces equal full ones, and loops whose iterations may differ run in full."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelopt_lsp.nki.dtypes import get_dtype
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.profiler.simulator import hook, kernels
from accelopt_lsp.profiler.simulator.abridging_values import FullTraceNeeded
from accelopt_lsp.profiler.simulator.errors import InstructionLimit, KernelRejected
from accelopt_lsp.profiler.simulator.library import OPERATOR_NAMES
from accelopt_lsp.profiler.simulator.session import Session
from accelopt_lsp.profiler.simulator.source import Sources
from tests.simulator.helpers import FOLDER, job, profile
from tests.simulator.test_kernels import CASES

EXAMPLES = FOLDER.parent.parent / "examples"

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


@pytest.mark.parametrize("name", ABRIDGED)
def test_abridged(name: str) -> None:
    body, wanted = ABRIDGED[name]
    session = both(source(LEGACY, body))
    abridging = session.abridging
    assert abridging is not None
    assert abridging.skipped > 0
    if wanted is not None:
        executed, iterations = wanted
        assert (abridging.executed, abridging.executed + abridging.skipped) == (
            executed,
            iterations,
        )


# What is not, a kernel for each kind.

FULL = {
    "a counter": "n += 1; a = load(x, 0)",
    "a counter that decides": "n += 1; a = load(x, 128 if n > 20 else 0)",
    "a list that grows": "kept.append(load(x, 0))",
    "a dictionary that grows": "table[n] = load(x, 0); n = n + 1",
    "an attribute that changes": "counter.number += 1; a = load(x, 0)",
    "a class attribute that changes": "Counter.total += 1; a = load(x, 0)",
    "a global that changes": "a = numbered(x)",
    "an entry that changes": "settings['step'] += 1; a = load(x, 0)",
    "a closure that changes": "bump(); a = load(x, 0)",
    "an iterator": "a = load(x, next(rows))",
    "a table looked up by index": "a = load(x, sizes[i])",
    "an index as a key": "a = load(x, {m: 0 for m in range(40)}[i])",
    "the name of a tile": "a = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf, name=f't{i}')\n"
    "    a[p, f] = b",
    "a product of indices": "a = load(x, i * i)",
    "a power": "a = load(x, 2 ** (i % 3))",
    "bits": "a = load(x, i & 3)",
    "a float": "a = load(x, int(i / 2))",
    "a range over the index": "for r in range(i): a = load(x, r)",
    "a parity": "a = load(x, 128 if i % 2 else 0)",
    "printing": "print('tile'); a = load(x, 0)",
    "a size that changes": "c = nl.load(x[nl.arange(128)[:, None], nl.arange(i + 1)[None, :]])",
    "a partition that changes": "b = nl.exp(wide[nl.arange(2)[:, None] + 32 * (i % 4), f])",
    "a row that wraps": "a = nl.load(flat[p + 5 * (i % 2), f])",
    "a block by a table": "blocks[order[i], p, f] = load(x, 0)",
    "an object of an extension": "a = load(x, deque_[0]); deque_.rotate(1)",
    "a random number": "a = load(x, random.randrange(4))",
    "a namespace that changes": "space.n += 1; a = late(x, space.n)",
    "an array of Python's that changes": "numbers[0] += 1; a = late(x, numbers[0])",
    "an array of a class derived from NumPy's": "own[0] += 1; a = late(x, own[0])",
    "a masked array": "hidden[0] += 1; a = late(x, hidden[0])",
    "a slot that changes": "a = late(x, slotted.bump())",
    "what a function remembers": "state()[0] += 1; a = late(x, state()[0])",
    "what a function remembers of a few": "some(1)[0] += 1; a = late(x, some(1)[0])",
    "an attribute of a number": "odd.n += 1; a = late(x, odd.n)",
    "an attribute of a function": "load.n += 1; a = late(x, load.n)",
    "an attribute of a kernel": "kernel.n += 1; a = late(x, kernel.n)",
    "an attribute of a member": "Kind.ONE.n += 1; a = late(x, Kind.ONE.n)",
    "an attribute of a class of classes": "Classes.__class__.n += 1; a = late(x, Classes.n)",
    "an exception": "error.args = (error.args[0] + 1,); a = late(x, error.args[0])",
    "a module in a variable": "there.count += 1; a = late(x, there.count)",
    "a module imported by a function": "a = late(x, imports())",
    "a name in a module that it imports": "a = late(x, takes())",
    "an attribute by its name": "a = late(x, by_name())",
    "a weak reference": "a = late(x, weak())",
    "the frame": "m = sys._getframe().f_locals.get('m', 0) + 1; a = late(x, m)",
    "a sign of zero": "zero = -zero; a = load(x, 0 if math.copysign(1, zero) > 0 else 128)",
    "a power modulo": "a = load(x, pow(i, 2, 5))",
    "small integers of NumPy": "a = load(x, int(i * 10 + np.uint8(200)))",
    "unsigned integers of NumPy": "a = load(x, int(i + np.uint64(3)))",
    "the type of an index": "a = load(x, i + 1 if type(i + 1) is int else 0)",
}


# What the cases name, each by itself: what one cannot be seen through would hide the others.

SETUP = {
    "rows": "rows = iter(range(40))",
    "sizes": "sizes = [0] * 10 + [128] * 30",
    "order": "order = [0, 1, 2, 3, 4, 7, 6, 5, 8, 9]",
    "deque_": "from collections import deque\ndeque_ = deque([0, 0, 128, 0])",
    "flat": "flat = x.reshape((1024, 256))",
    "bump": "seen = [0]\ndef bump(): seen[0] += 1",
    "random": "import random\nrandom.seed(1)",
    "space": "import types\nspace = types.SimpleNamespace(n=0)",
    "numbers": "import array\nnumbers = array.array('q', [0])",
    "own": "class Own(np.ndarray): pass\nown = np.zeros(1, dtype=np.int64).view(Own)",
    "hidden": "hidden = np.ma.zeros(1, dtype=np.int64)",
    "slotted": """
class Slotted:
    __slots__ = ("__n",)
    def __init__(self): self.__n = 0
    def bump(self):
        self.__n += 1
        return self.__n
slotted = Slotted()
""",
    "state": "import functools\n@functools.cache\ndef state(): return [0]",
    "some": "import functools\n@functools.lru_cache(4)\ndef some(n): return [0]",
    "odd": "class Odd(int): pass\nodd = Odd(3)\nodd.n = 0",
    "load.n": "load.n = 0",
    "kernel.n": "kernel.n = 0",
    "Kind": "import enum\nclass Kind(enum.Enum): ONE = 1\nKind.ONE.n = 0",
    "Classes": "class Meta(type): n = 0\nclass Classes(metaclass=Meta): pass",
    "error": "class Failed(Exception): pass\nerror = Failed(0)",
    "there": "there = shelf[0]",
    "imports": """
def imports():
    import counted_elsewhere
    counted_elsewhere.count += 1
    return counted_elsewhere.count
""",
    "takes": """
def takes():
    from counted_elsewhere import inner
    inner.count += 1
    return inner.count
""",
    "by_name": """
def by_name():
    setattr(elsewhere, "count", getattr(elsewhere, "count") + 1)
    return getattr(elsewhere, "count")
""",
    "weak": """
import weakref
class Held: n = 0
held = Held()
def weak(hold=weakref.ref(held)):
    hold().n += 1
    return hold().n
""",
    "sys": "import sys",
    "zero": "import math\nzero = 0.0",
}


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Serve a module of the user's that kernels can change."""
    module = ModuleType("counted_elsewhere")
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.parametrize("name", FULL)
def test_not_abridged(name: str, elsewhere: None) -> None:
    setup = "\n".join([text for key, text in SETUP.items() if key in FULL[name]])
    body = f"{setup}\nfor i in nl.sequential_range(10):\n    {FULL[name]}\n"
    before = """
import counted_elsewhere as elsewhere
elsewhere.count = 0
elsewhere.inner = load
load.count = 0
shelf = [elsewhere]


@nki.jit"""
    session = both(source(LEGACY.replace("@nki.jit", before), body))
    assert session.abridging is not None
    assert session.abridging.skipped == 0


UNSEEN = {
    "a comprehension": "kept = [load(x, 128 * i) for i in nl.affine_range(20)]",
    "a list of the range": "for i in list(nl.affine_range(20)): a = load(x, 128 * i)",
    "enumerate": "for n, i in enumerate(nl.affine_range(20)): a = load(x, 128 * n)",
    "zip": "for i, r in zip(nl.affine_range(20), range(20)): a = load(x, 128 * r)",
    "a range with a name": "span = nl.affine_range(20)\nfor i in span: a = load(x, 128 * i)",
    "a generator": """
def rows():
    for i in nl.affine_range(20):
        yield 128 * i
for n, row in enumerate(rows()):
    a = load(x, row + n)
""",
    "a short loop": "for i in nl.affine_range(2): a = load(x, 128 * i)",
}


@pytest.mark.parametrize("name", UNSEEN)
def test_only_for_statements(name: str) -> None:
    session = both(source(LEGACY, UNSEEN[name]))
    assert session.abridging is not None
    assert session.abridging.skipped == 0


LEAVING = {
    "break": "if i == 12: break",
    "continue": "if i >= 12: continue",
    "return": "if i == 12: return out",
    "a caught exception": "try:\n        [][n]\n    except IndexError:\n        a = nl.exp(b)",
}


@pytest.mark.parametrize("name", LEAVING)
def test_ways_out_of_a_body(name: str) -> None:
    body = f"""
for i in nl.affine_range(20):
    b = load(x, 128 * i)
    {LEAVING[name]}
    a = nl.exp(b)
a = nl.exp(b)
"""
    session = both(source(LEGACY, body))
    assert session.abridging is not None
    assert session.abridging.skipped > 0


CURRENT_BODIES = {
    "slices": """
for i in nl.affine_range(32):
    nisa.dma_copy(dst=a, src=x[i * 128:(i + 1) * 128, :])
    nisa.dma_copy(dst=out[nl.ds(i * 128, 128), :], src=a)
""",
    "partial tiles": """
for i in nl.affine_range(32):
    size = min(130, 4096 - i * 130)
    if size > 0:
        nisa.dma_copy(dst=a[0:min(size, 128), :], src=x[i * 130:i * 130 + min(size, 128), :])
""",
    "tiles of each iteration": """
for i in nl.sequential_range(20):
    t = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=t, data1=a, data2=wide[:, i * 64:(i + 1) * 64], op=nl.add)
    a = t
""",
    "products that add up": """
for i in nl.affine_range(20):
    acc = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
    for k in nl.affine_range(6):
        nisa.nc_matmul(dst=acc, stationary=a, moving=wide[:, k * 64:(k + 1) * 64])
    nisa.tensor_copy(dst=a[0:64, :], src=acc)
""",
    "products in parts of a tile": """
acc = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.psum)
for r in range(2):
    for i in nl.affine_range(8):
        nisa.nc_matmul(dst=acc[:, i * 64:(i + 1) * 64], stationary=a, moving=a)
nisa.tensor_copy(dst=a[0:64, :], src=acc[:, 0:64])
""",
    "registers": """
for i in nl.affine_range(8):
    r = nisa.register_alloc(i)
    nisa.dma_copy(dst=a, src=x[i * 128:(i + 1) * 128, :])
""",
    "loops of the hardware": """
for i in nl.dynamic_range(8):
    nisa.dma_copy(dst=a, src=x[0:128, :])
for j in nl.affine_range(8):
    nisa.dma_copy(dst=a, src=x[j * 128:(j + 1) * 128, :])
""",
    "views": """
for i in nl.affine_range(16):
    v = x.reshape((32, 128, 64))[i]
    nisa.dma_copy(dst=a, src=v)
    nisa.dma_copy(dst=out.ap([[64, 128], [1, 64]], offset=i * 8192), src=a)
""",
    "tiles in a list": """
tiles = []
for i in nl.affine_range(8):
    tiles.append(nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf))
    nisa.dma_copy(dst=tiles[i], src=x[i * 128:(i + 1) * 128, :])
for i in nl.affine_range(8):
    nisa.dma_copy(dst=out[i * 128:(i + 1) * 128, :], src=tiles[i])
""",
}


@pytest.mark.parametrize("name", CURRENT_BODIES)
def test_current_dialect(name: str) -> None:
    session = both(source(CURRENT, CURRENT_BODIES[name]))
    assert session.abridging is not None
    kept = ("products in parts of a tile", "registers", "tiles in a list")
    assert (session.abridging.skipped > 0) is (name not in kept)


REJECTED = {
    "the last tile": "nl.store(out[p + 128 * i, f], b)",
    "the last block": "blocks[i // 2, p, f] = b",
    "one in the middle": "nl.store(out[p + 8 * (i - 20) * 16 + 1600, f], b)",
}


@pytest.mark.parametrize("name", REJECTED)
def test_rejected_alike(name: str) -> None:
    text = source(LEGACY, f"for i in nl.affine_range(33):\n    {REJECTED[name]}")
    messages = []
    for abridged in (True, False):
        with pytest.raises(KernelRejected) as error:
            trace(text, abridged=abridged)
        messages.append((str(error.value), error.value.code))
    assert messages[0] == messages[1]


def test_instruction_limit_is_met_alike() -> None:
    text = source(LEGACY, "for i in nl.affine_range(1000):\n    a = nl.exp(b)")
    messages = []
    for abridged in (True, False):
        with pytest.raises(InstructionLimit) as error:
            trace(text, abridged=abridged, instruction_limit=500)
        messages.append((str(error.value), error.value.line))
    assert messages[0] == messages[1]


def _job_of(text: str, **changes: Any) -> Any:
    return job(Path("case.py").absolute(), {"x": "f32[4096,64]"}, source=text, **changes)


def test_reductions_told_apart_by_count_need_a_full_trace() -> None:
    body = """
for r in range(2):
    for i in nl.affine_range(8):
        sums[0, p, f] = nl.loop_reduce(load(x, 128 * i), np.add, [i], dtype=np.float32)
"""
    text = source(LEGACY, body)
    with pytest.raises(FullTraceNeeded):
        trace(text, abridged=True)
    assert isinstance(profile(_job_of(text)), Profile)


def test_a_kernel_cannot_keep_the_need_of_a_full_trace_to_itself() -> None:
    body = """
for r in range(2):
    for i in nl.affine_range(8):
        try:
            sums[0, p, f] = nl.loop_reduce(load(x, 128 * i), np.add, [i], dtype=np.float32)
        except:
            pass
"""
    with pytest.raises(FullTraceNeeded):
        trace(source(LEGACY, body), abridged=True)


def test_types_told_by_a_function_that_is_not_found_by_name_need_a_full_trace() -> None:
    body = """
def rows(give):
    for i in nl.affine_range(10):
        b = load(x, give(i + 0))
rows(lambda row: 128 * row if type(row) is int else 0)
"""
    with pytest.raises(FullTraceNeeded):
        trace(source(LEGACY, body), abridged=True)


def test_what_takes_nothing_but_integers_is_given_them() -> None:
    body = """
import json
count = len(settings)
settings["seen"] = count
for i in nl.affine_range(10):
    b = load(x, len(json.dumps([i])))
for n in range(count):
    a = nl.exp(b)
"""
    found = [profile(_job_of(source(LEGACY, body), abridged=a)) for a in (True, False)]
    assert all(isinstance(one, Profile) for one in found)
    first, second = (one.issued for one in found if isinstance(one, Profile))
    # The second attempt begins with the file's own state.
    assert first == second


def test_a_loop_whose_iterations_hold_for_themselves_only_is_given_up() -> None:
    body = """
for i in nl.affine_range(30):
    b = load(x, 128 * (i & 3))
    # Variables of loops that run in full have it.
    assert i < 20 or hasattr(i, "run")
"""
    found = both(source(LEGACY, body))
    assert found.abridging is not None
    assert found.abridging.executed == 30


@pytest.mark.parametrize("abridged", [True, False])
def test_a_job_says_whether_it_may_be_abridged(abridged: bool) -> None:
    body = "for i in nl.affine_range(32):\n    nl.store(out[p + 128 * i, f], load(x, 128 * i))"
    found = profile(_job_of(source(LEGACY, body), abridged=abridged))
    assert isinstance(found, Profile)
    assert found.issued is not None
    assert found.issued.instructions == {"dma_copy": 2 * 32 + 3}


def _paths() -> list[Any]:
    files = [*FOLDER.glob("kernels/*/*.py"), *EXAMPLES.glob("*/*.py")]
    return [
        pytest.param(file, id=f"{file.parent.parent.name}-{file.parent.name}-{file.stem}")
        for file in sorted(files)
        if not file.stem.endswith("_reference")
    ]


def _shapes(path: Path) -> list[tuple[int, ...]]:
    if path.is_relative_to(FOLDER):
        return [*CASES[path.stem][1]]
    directive = re.search(r"# accelopt: (.*)", path.read_text())
    assert directive is not None
    found = re.findall(r"\w+=\w+\[([\d,]+)\]", directive[1])
    return [tuple(map(int, sizes.split(","))) for sizes in found]


@pytest.mark.parametrize("path", _paths())
def test_kernels_of_the_repository(path: Path) -> None:
    text = path.read_text()
    sessions = []
    for abridged in (True, False):
        hook.install()
        space: dict[str, Any] = {"__name__": "case"}
        exec(compile(text, str(path), "exec"), space)  # noqa: S102 - a file of the repository
        kernel = next(v for v in space.values() if isinstance(v, kernels.Kernel))
        session = Session(
            get_target("trn1" if path.parent.name == "legacy" else "trn2"),
            kernel.dialect,
            Sources(str(path)),
            full=False,
            names=OPERATOR_NAMES,
            abridged=abridged,
        )
        inputs = [kernels.TensorInput(s, get_dtype("float32")) for s in _shapes(path)]
        kernels.execute(kernel, inputs, {}, session)
        sessions.append(session)
    compare(*sessions)


# Random nests.

VARIABLES = ("i", "j", "k")


@st.composite
def index(
    draw: Any, depth: int, scale: tuple[int, ...] = (0, 1, 16, 64, 128), starts: Any = (0, 1, 64)
) -> str:
    """An index in the variables of the loops around, affine or nearly so."""
    names = VARIABLES[:depth]
    terms = [f"{draw(st.sampled_from(scale))} * {n}" for n in names]
    text = " + ".join([*terms, str(draw(st.sampled_from(starts)))])
    form = draw(st.sampled_from(("{}", "{}", "{}", "({}) // 2", "({}) % 7", "min({}, 512)")))
    return str(form.format(text))


@st.composite
def statement(draw: Any, depth: int) -> list[str]:
    """One statement of a loop's body, with the loops inside it."""
    names = VARIABLES[:depth]
    row = draw(index(depth))
    block = draw(index(depth, (0, 1, 1), (0, 1)))
    end = draw(st.sampled_from((300, 1000, 4096)))
    simple = [
        f"a = nl.load(x[p + {row}, f], mask=p + {row} < {end})",
        f"a = nl.load(x[p + {row}, f], mask=(p + {row} < 900) & (p + {row} >= 200))",
        f"nl.store(out[p + {row}, f], a, mask=p + {row} < 4096)",
        f"nl.store(out[p + {row}, f], b)",
        "a = nl.add(a, b)",
        "a, b = b, nl.exp(a)",
        "b = nl.exp(a)",
        "view = a[:, 0:32]",
        "a = nl.exp(view)[:, 0:32]" if draw(st.integers(0, 9)) == 0 else "c = nl.exp(view)",
        f"blocks[{block}, p, f] = nl.copy(b)",
        f"blocks[{block}, p, f] = nl.exp(blocks[{block}, p, f])",
        f"a = blocks[{block}]",
        f"grid[{block}, {draw(index(depth, (0, 1), (0, 1)))}, p, f] = nl.exp(b)",
        f"b = nl.exp(grid[{block}, {draw(index(depth, (0, 1), (0, 1)))}, p, f])",
        f"wide[p, f + {draw(index(depth, (0, 16, 64)))}] = b",
        "psum += nl.matmul(b[:, 0:64], b, transpose_x=True)",
        "own = nl.ndarray((4, nl.par_dim(128), 64), dtype=x.dtype, buffer=nl.sbuf)",
        "held.first, held.second = held.second, nl.add(held.first, b)",
        "line[:] = [*line[1:], nl.exp(line[0])]",
        "b = nl.exp(line[-1])",
        "a = nl.maximum(held.first, held.second)",
        "pair = (b, (a, pair[0]))",
        "b = nl.add(b, pair[1][1])",
        f"at = p + {row}",
        "a = nl.load(x[at, f], mask=at < 3000)",
        f"low, high = max(0, min({row}, 700)), {row}",
        "b = load(x, low)",
        f"b = load(x, max(low, 64) + {draw(st.sampled_from((0, 3)))})",
        f"a = load(x, divmod({row}, {draw(st.sampled_from((3, 64, 128)))})[0])",
        f"b = helper({row}, 3)",
    ]
    rare = [
        "n += 1",
        "kept.append(b)",
        "b = nl.exp(kept[-1]) if kept else b",
        f"table[{block}] = b",
        "counter.number += 1",
        f"a = load(x, {'n' if draw(st.booleans()) else 0})",
        "table['last'] = b",
        "kept[:] = [b]",
        "held.first = b",
        "line[n % 2] = b",
        "toggle = not toggle",
        "a = load(x, 128 if toggle else 0)",
        "del c",
        f"a = load(x, 16 * len(range({block})))",
        f"b = load(x, {block} ** 2 + pow({block}, 2, 5))",
        f"b = load(x, [0, 64, 128][{block} % 3])",
    ]
    if depth:
        variable = draw(st.sampled_from(names))
        test = draw(
            st.sampled_from(
                ("{} == 0", "{} > 2", "{} % 2 == 0", "{} == 4", "{} < 5", "1 < {} <= 4")
            )
        ).format(variable)
        inner = draw(statement(depth)) if draw(st.booleans()) else ["b = nl.exp(b)"]
        rare.append("\n".join([f"if {test}:", *[f"    {line}" for line in inner]]))
        rare.append(f"try:\n    {test.split()[0]}\n    b = nl.exp(b)\nfinally:\n    a = nl.copy(b)")
        rare.append(f"low = 0 if {test} else 64")
        rare.append(f"last = {variable}")
        simple.append("b = load(x, 64 * last)")
        if depth > 1:
            sign = draw(st.sampled_from(("==", "<", ">=")))
            rare.append(f"if {names[0]} {sign} {names[1]}: b = nl.exp(b)")
            rare.append(f"b = load(x, {names[0]} * {names[1]})")
        rare.append(f"if {test}: break" if draw(st.booleans()) else f"if {test}: continue")
        simple.append(
            f"sums[0, p, f] = nl.loop_reduce(nl.exp(b), np.add, [{variable}], dtype=np.float32)"
        )
    kind = draw(st.integers(0, 9))
    if depth < len(VARIABLES) and kind < 3:
        return draw(loop(depth))  # type: ignore[no-any-return]
    if kind == 3:
        return str(draw(st.sampled_from(rare))).splitlines()
    return [draw(st.sampled_from(simple))]


@st.composite
def loop(draw: Any, depth: int) -> list[str]:
    """A loop over the next variable."""
    kind = draw(st.sampled_from(("affine_range", "sequential_range", "static_range")))
    span = draw(st.sampled_from(("4", "6", "7", "2, 9", "9, 1, -1", "0, 12, 2", "3")))
    lines = [f"for {VARIABLES[depth]} in nl.{kind}({span}):"]
    for _ in range(draw(st.integers(1, 3))):
        lines += [f"    {line}" for line in draw(statement(depth + 1))]
    return lines


@st.composite
def body(draw: Any) -> str:
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 2))):
        lines += draw(loop(0))
        lines += draw(statement(0))
    return "\n".join(lines)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
@given(body())
def test_random_nests(text: str) -> None:
    setup = """
held, line, pair, at, c = Held(), [a, b, nl.exp(a)], (a, (b, a)), p, a
low, last, toggle = 0, 0, True
held.first, held.second = a, b
def helper(row, count):
    t = load(x, row)
    for m in nl.affine_range(count):
        t = nl.exp(t)
    return t
"""
    kernel = source(
        LEGACY.replace("class Counter:", "class Held: pass\n\n\nclass Counter:"), setup + text
    )
    full = _result(kernel, abridged=False)
    short = _result(kernel, abridged=True)
    if short is None:
        return
    if isinstance(full, Session) and isinstance(short, Session):
        compare(short, full)
    else:
        assert short == full


def _result(text: str, *, abridged: bool) -> Any:
    try:
        return trace(text, abridged=abridged)
    except FullTraceNeeded:
        return None
    except Exception as error:
        return type(error), str(error)
