"""Abridged traces equal full ones, and loops whose iterations may differ run in full."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from accelopt_lsp.nki.dtypes import get_dtype
from accelopt_lsp.nki.profile import Profile
from accelopt_lsp.nki.targets import get_target
from accelopt_lsp.profiler.simulator import hook, kernels
from accelopt_lsp.profiler.simulator.abridging_values import FullTraceNeeded
from accelopt_lsp.profiler.simulator.errors import InstructionLimit, KernelRejected
from accelopt_lsp.profiler.simulator.library import OPERATOR_NAMES
from accelopt_lsp.profiler.simulator.session import Session
from accelopt_lsp.profiler.simulator.source import Sources
from tests.simulator.abridging_cases import ABRIDGED, CURRENT, LEGACY, both, compare, source, trace
from tests.simulator.helpers import FOLDER, job, profile
from tests.simulator.test_kernels import CASES

EXAMPLES = FOLDER.parent.parent / "examples"


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
