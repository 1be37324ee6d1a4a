"""A cache that forgets what was not used for longest once it holds too much, or for too long."""

from __future__ import annotations

from typing import Generic, TypeVar

from attrs import define, field

K = TypeVar("K")
V = TypeVar("V")


@define(slots=True, eq=False)
class LimitedCache(Generic[K, V]):
    """Values by key, each with a weight; their sum stays below ``limit``."""

    limit: int
    weight: int = field(default=0, init=False)
    _entries: dict[K, tuple[V, int, int]] = field(factory=dict, init=False, repr=False)
    """Value, weight and when it was last used, what was used longest ago first."""
    _now: int = field(default=0, init=False)

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """The value, which counts as used now; None where there is none."""
        found = self._entries.pop(key, None)
        if found is None:
            return None
        value, weight, _ = found
        self._entries[key] = value, weight, self._now
        return value

    def put(self, key: K, value: V, weight: int = 1) -> None:
        """Keep a value; what is too heavy for the whole cache is not kept."""
        old = self._entries.pop(key, None)
        if old is not None:
            self.weight -= old[1]
        if weight > self.limit:
            return
        self._entries[key] = value, weight, self._now
        self.weight += weight
        while self.weight > self.limit:
            oldest = next(iter(self._entries))
            self.weight -= self._entries.pop(oldest)[1]

    def grow_older(self, most: int) -> None:
        """A moment passes; what was not used for more than ``most`` of them is forgotten."""
        self._now += 1
        while self._entries:
            oldest = next(iter(self._entries))
            if self._now - self._entries[oldest][2] <= most:
                break
            self.discard(oldest)

    def discard(self, key: K) -> None:
        """Forget one value, if it is there."""
        found = self._entries.pop(key, None)
        if found is not None:
            self.weight -= found[1]

    def clear(self) -> None:
        self._entries.clear()
        self.weight = 0
