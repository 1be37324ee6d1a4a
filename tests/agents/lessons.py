"""Experiences for tests of the memory."""

from __future__ import annotations

from attrs import evolve

from accelopt_lsp.agents.roles import Experience, Tags


def lesson(name: str, **changes: object) -> Experience:
    """An experience unlike any other of another name."""
    tags = Tags(
        ("dma_copy", "nc_matmul"), "dma", "nest3", "bf16", "legacy", "trn1", ("dma",), "2d-fits"
    )
    experience = Experience(
        id=name, title=f"strategy {name}", text=f"words about {name}", rewrite=name, tags=tags
    )
    return evolve(experience, **changes)  # type: ignore[arg-type]
