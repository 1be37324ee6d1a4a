"""Laws of the cache that forgets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from accelopt_lsp.analysis.limited import LimitedCache

STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "get", "older", "discard"]), st.integers(0, 6)), max_size=60
)


@given(STEPS, st.integers(1, 6), st.integers(0, 4))
def test_it_holds_what_was_used_lately_within_its_limit(
    steps: list[tuple[str, int]], limit: int, most: int
) -> None:
    cache: LimitedCache[int, str] = LimitedCache(limit)
    kept: list[tuple[int, int]] = []  # (key, last use), used longest ago first
    now = 0
    for step, key in steps:
        known = key in [k for k, _ in kept]
        if step == "older":
            now += 1
            cache.grow_older(most)
            kept = [(k, used) for k, used in kept if now - used <= most]
        elif step == "get":
            assert cache.get(key) == (str(key) if known else None)
            if known:
                kept = [(k, used) for k, used in kept if k != key] + [(key, now)]
        else:
            kept = [(k, used) for k, used in kept if k != key]
            if step == "discard":
                cache.discard(key)
            else:
                cache.put(key, str(key))
                kept = [*kept, (key, now)][-limit:]
        assert len(cache) == cache.weight == len(kept)
