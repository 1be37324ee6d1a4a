"""Turns: never more than the limit, nobody is forgotten, whoever leaves makes room."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.server.turns import Turns

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("come"), st.just(0)),
        st.tuples(st.just("leave"), st.integers(0, 9)),
        st.tuples(st.just("cancel"), st.integers(0, 9)),
        st.tuples(st.just("limit"), st.integers(1, 3)),
    ),
    max_size=30,
)


async def _play(steps: list[tuple[str, int]], limit: int) -> None:
    turns = Turns(limit)
    inside: dict[int, asyncio.Event] = {}
    tasks: list[asyncio.Task[None]] = []

    async def visit(number: int) -> None:
        async with turns.turn():
            inside[number] = asyncio.Event()
            try:
                await inside[number].wait()
            finally:
                del inside[number]

    async def settle() -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    for step, value in steps:
        before = len(inside)
        if step == "come":
            tasks.append(asyncio.create_task(visit(len(tasks))))
        elif step == "leave" and inside:
            list(inside.values())[value % len(inside)].set()
        elif step == "cancel" and tasks:
            tasks[value % len(tasks)].cancel()
        elif step == "limit":
            limit = turns.limit = value
        await settle()
        waiting = sum(not t.done() for t in tasks) - len(inside)
        assert len(inside) <= max(limit, before)
        assert not waiting or len(inside) >= limit
    while any(not t.done() for t in tasks):
        for event in list(inside.values()):
            event.set()
        await settle()


@given(STEPS, st.integers(1, 3))
def test_turns(steps, limit):
    asyncio.run(_play(steps, limit))


async def test_who_must_wait_is_told_how_many_are_ahead():
    turns = Turns(1)
    told: list[int] = []
    async with turns.turn(told.append):
        waiting = asyncio.create_task(_brief(turns, told))
        await asyncio.sleep(0)
        later = asyncio.create_task(_brief(turns, told))
        await asyncio.sleep(0)
        assert told == [1, 2]
    await asyncio.gather(waiting, later)


async def _brief(turns: Turns, told: list[int]) -> None:
    async with turns.turn(told.append):
        pass
