"""Random loop nests: abridged traces equal full ones."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accelopt_lsp.profiler.simulator.abridging_values import FullTraceNeeded
from accelopt_lsp.profiler.simulator.session import Session
from tests.simulator.abridging_cases import LEGACY, compare, source, trace

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
