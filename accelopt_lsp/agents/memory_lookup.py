"""Retrieval from the memory's tables: what :func:`~accelopt_lsp.agents.retrieval.rank` would give.

Situations are few and never change, so they are held in memory and compared one by one, as bit
sets. Experiences come out of the index in order, as many as are needed: the ranking ends where
nothing further down could still come first.
"""

from __future__ import annotations

import heapq
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
from attrs import define, field, frozen

from accelopt_lsp.agents.retrieval import (
    ENGINES_WEIGHT,
    INSTRUCTIONS_WEIGHT,
    MOST_QUALITY,
    plain_score,
    quality,
    score,
    strategy_key,
    structure_score,
    words,
)
from accelopt_lsp.agents.roles import Experience, Tags

MOST_HITS = 100
"""So many of the best hits of a text count."""
_MOST_WORDS = 64
_PAGE = 16
_COLUMNS = "number, id, quality, strategy, helpful, situation"


@frozen(slots=True)
class Found:
    """A ranked experience.

    Attributes:
        number: its row; None for one of another layer.
        experience: that one.
    """

    score: float
    id: str
    strategy: str
    helpful: bool
    number: int | None = None
    experience: Experience | None = None

    @property
    def order(self) -> tuple[float, str]:
        return -self.score, self.id


@define(slots=True)
class Situations:
    """All situations of a memory, by what they have in common besides instructions."""

    last: int = 0
    _bits: dict[str, int] = field(factory=dict)
    _groups: dict[Tags, list[tuple[int, int, int]]] = field(factory=dict)

    def refresh(self, connection: sqlite3.Connection) -> None:
        """Take in what has been added."""
        rows = connection.execute(
            "SELECT number, tags FROM situations WHERE number > ? ORDER BY number", (self.last,)
        )
        for number, text in rows.fetchall():
            tags = _tags(text)
            plain = attrs.evolve(tags, instructions=(), engines=())
            sets = self._mask(tags.instructions), self._mask(tags.engines)
            self._groups.setdefault(plain, []).append((number, *sets))
            self.last = number

    def scores(self, want: Tags) -> dict[int, float]:
        """``structure_score`` of every situation."""
        instructions, engines = self._mask(want.instructions), self._mask(want.engines)
        shared: dict[tuple[int, int], float] = {}
        found: dict[int, float] = {}
        for plain, members in self._groups.items():
            rest = plain_score(plain, want)
            for number, *sets in members:
                key = sets[0], sets[1]
                known = shared.get(key)
                if known is None:
                    known = INSTRUCTIONS_WEIGHT * _overlap(key[0], instructions)
                    known += ENGINES_WEIGHT * _overlap(key[1], engines)
                    shared[key] = known
                found[number] = known + rest
        return found

    def _mask(self, names: Iterable[str]) -> int:
        mask = 0
        for name in names:
            mask |= 1 << self._bits.setdefault(name, len(self._bits))
        return mask


def _tags(text: str) -> Tags:
    values: dict[str, Any] = json.loads(text)
    for name in ("instructions", "engines"):
        values[name] = tuple(values.get(name, ()))
    return Tags(**values)


def _overlap(first: int, second: int) -> float:
    either = first | second
    return (first & second).bit_count() / either.bit_count() if either else 1.0


def ranked(
    connection: sqlite3.Connection,
    situations: Situations,
    want: Tags,
    hits: Mapping[int, float],
    beside: Iterable[Experience] = (),
) -> Iterator[Found]:
    """Experiences, best first, found while they are asked for.

    Args:
        hits: relevance of experiences' words, from 0 to 1, by number.
        beside: experiences of another layer; those that the memory has are left out.
    """
    situations.refresh(connection)
    structure = situations.scores(want)
    texts = [
        _found(row, structure, hits[row["number"]])
        for row in _in_chunks(connection, f"SELECT {_COLUMNS} FROM experiences WHERE number", hits)
        if row["situation"] in structure
    ]
    others = {e.id: e for e in beside}
    for row in _in_chunks(connection, "SELECT id FROM experiences WHERE id", list(others)):
        del others[row["id"]]
    foreign = [
        Found(
            score(structure_score(e.tags, want), quality(e)),
            e.id,
            strategy_key(e),
            e.helpful,
            experience=e,
        )
        for e in others.values()
    ]
    streams = (
        sorted(texts, key=lambda f: f.order),
        sorted(foreign, key=lambda f: f.order),
        _by_structure(connection, structure, hits),
    )
    return heapq.merge(*streams, key=lambda f: f.order)


def _found(row: sqlite3.Row, structure: Mapping[int, float], text: float = 0.0) -> Found:
    return Found(
        score(structure[row["situation"]], row["quality"], text),
        row["id"],
        row["strategy"],
        bool(row["helpful"]),
        row["number"],
    )


def _by_structure(
    connection: sqlite3.Connection, structure: Mapping[int, float], hits: Mapping[int, float]
) -> Iterator[Found]:
    """All but the hits, best first: a situation is opened when nothing better is at hand."""
    closed = [(-score(s, MOST_QUALITY), number) for number, s in structure.items()]
    heapq.heapify(closed)
    at_hand: list[tuple[float, str, int, Found]] = []
    ends: dict[int, sqlite3.Row] = {}

    def load(situation: int, after: sqlite3.Row | None) -> None:
        while True:
            rows = _page(connection, situation, after)
            fresh = [row for row in rows if row["number"] not in hits]
            for row in fresh:
                found = _found(row, structure)
                heapq.heappush(at_hand, (*found.order, row["number"], found))
            if len(rows) < _PAGE:
                return
            after = rows[-1]
            if fresh:
                ends[fresh[-1]["number"]] = after
                return

    while closed or at_hand:
        while closed and (not at_hand or closed[0][0] <= at_hand[0][0]):
            load(heapq.heappop(closed)[1], None)
        if at_hand:
            _, _, number, found = heapq.heappop(at_hand)
            end = ends.pop(number, None)
            if end is not None:
                load(end["situation"], end)
            yield found


def _page(
    connection: sqlite3.Connection, situation: int, after: sqlite3.Row | None
) -> list[sqlite3.Row]:
    """The next experiences of one situation, best first."""
    if after is None:
        return connection.execute(
            f"SELECT {_COLUMNS} FROM experiences WHERE situation = ?"
            " ORDER BY quality DESC, id LIMIT ?",
            (situation, _PAGE),
        ).fetchall()
    return connection.execute(
        f"SELECT {_COLUMNS} FROM experiences WHERE situation = ? AND quality <= ?"
        " AND (quality < ? OR id > ?) ORDER BY quality DESC, id LIMIT ?",
        (situation, after["quality"], after["quality"], after["id"], _PAGE),
    ).fetchall()


def _in_chunks(
    connection: sqlite3.Connection, query: str, values: Iterable[Any]
) -> Iterator[sqlite3.Row]:
    """Rows of a query that ends before ``IN``."""
    left = list(values)
    while left:
        some, left = left[:500], left[500:]
        marks = ",".join("?" * len(some))
        yield from connection.execute(f"{query} IN ({marks})", some).fetchall()


def text_hits(connection: sqlite3.Connection, text: str, limit: int) -> dict[int, float]:
    """Relevance, from 0 to 1, of experiences that share words with a text, best first.

    By the full-text index; needs :func:`~accelopt_lsp.agents.memory_schema.has_words`.
    """
    known = list(dict.fromkeys(words(text)))[:_MOST_WORDS]
    rarest = _rarest(connection, known) if len(known) > 3 else known
    if not rarest:
        return {}
    query = " OR ".join(f'"{word}"' for word in rarest)
    rows = connection.execute(
        "SELECT rowid AS number, bm25(words) AS score FROM words WHERE words MATCH ?"
        " ORDER BY score, rowid LIMIT ?",
        (query, limit),
    ).fetchall()
    # bm25 gives negative numbers, the smallest for the best.
    return relative({row["number"]: -float(row["score"]) for row in rows})


def _rarest(connection: sqlite3.Connection, known: list[str]) -> list[str]:
    """Words that some experiences have, the fewest first, until they lead to most of them.

    A name such as ``nc_matmul`` is several terms of the index, found as a phrase; the rarest of
    them says how rare it is. What half of all experiences have weighs nothing anyway.
    """
    terms = {word: [part for part in word.split("_") if part] for word in known}
    flat = {part for parts in terms.values() for part in parts}
    count = {
        row["term"]: row["doc"]
        for row in _in_chunks(connection, "SELECT term, doc FROM vocabulary WHERE term", flat)
    }
    rarity = {
        word: min((count.get(part, 0) for part in parts), default=0)
        for word, parts in terms.items()
    }
    left = connection.execute("SELECT count(*) FROM experiences").fetchone()[0]
    chosen: list[str] = []
    for word in sorted((word for word in known if rarity[word]), key=lambda word: rarity[word]):
        left -= rarity[word]
        if chosen and left < 0:
            break
        chosen.append(word)
    return chosen


def word_hits(rows: Iterable[tuple[int, Experience]], text: str, limit: int) -> dict[int, float]:
    """The same without a full-text index: how many of the words each experience has."""
    wanted = set(words(text))
    found: dict[int, float] = {}
    for number, e in rows:
        shared = wanted & set(words(f"{e.title} {e.text} {e.before} {e.after}"))
        if shared:
            found[number] = float(len(shared))
    best = sorted(found, key=lambda number: (-found[number], number))[:limit]
    return relative({number: found[number] for number in best})


def relative(scores: Mapping[int, float]) -> dict[int, float]:
    """Scores as shares of the best one."""
    best = max(scores.values(), default=0.0)
    return {name: value / best if best > 0 else 1.0 for name, value in scores.items()}
