"""What the compiler does with a kernel, by dialect.

Legacy (``neuronxcc.nki``): the compiler merges repeated loads, chooses buffers and reorders
instructions. Current (``nki``): what is written is what runs, as long as it fits into SBUF. In
AWS's profile of step 4 in kernel-optimization it does not, and about as much is read from HBM,
8.5 GB, as loading the large operand at each use takes.
"""

from __future__ import annotations

from typing import Any

import attrs
from attrs import field, frozen

from accelopt_lsp.nki.dialects import Dialect


def rule(title: str, *, off: Any, **options: Any) -> Any:
    """A field of :class:`Policy` that is a rule of the model.

    ``title`` names it in tables; ``off`` is the value without the rule. Every ablation of the
    model switches each of these off in turn, so a new rule needs no entry elsewhere.
    """
    return field(metadata={"title": title, "off": off}, **options)


@frozen(slots=True)
class Policy:
    """Rules of one dialect.

    Attributes:
        merges: equal loads and equal work on them are done once (:mod:`merging`).
        uses_psum: tiles may move to idle PSUM banks (:mod:`placement`).
        streams: a loaded tensor that takes most of a full SBUF is loaded at each use
            (:mod:`streaming`).
        fuses: where SBUF overflows, loops that hand tiles over run as one (:mod:`fusing`).
        shifts: two-input instructions write where they read; a copy moves the result to other
            partitions (:mod:`shifting`).
        constants: transposes that a call implies read an identity that the compiler loads
            (:mod:`constants`).
        splits: parts of a tile that are never touched together are placed one by one
            (:mod:`splitting`).
        buffering: an allocation site owns this many times its live peak in places, which its
            tiles rotate over: 2 is double buffering, as the idle Vector time of the measured
            silu kernel shows. 0: every tensor has a place of its own while SBUF has room.
        least_bytes: places of a site add up to at least this many bytes per partition, so
            that small tiles are loaded further ahead.
        window: instructions may issue at most this far, in program order over all engines,
            ahead of the oldest that has not; 0 keeps every engine strictly in order.
        spare_bytes: bytes per partition that stay free for running ahead when tiles are
            evicted; no tile larger than that goes for it. Source: HBM reads of the measured
            matmul_add_rmsnorm, which loads 54 tiles of its right operand a second time, and
            spills of bmm_softmax; mamba, with tiles of 28 KiB, fills all of SBUF.
        late_reloads: the engine that needs a spilled tile triggers its re-load, within the
            window (:mod:`dependencies`); else loads and re-loads share a queue and run ahead.
        generates_descriptors: transfers take their queue the time that making descriptors at
            run time needs (:mod:`machine`).
        excludes: engines that share a port of SBUF or PSUM take turns (:mod:`machine`).
        loads_stationary: after a pause, a product waits until its stationary operand is loaded.
        hides_transposes: NeuronCore-v4 transposes beside other products (:mod:`machine`).
        throttles: the Tensor Engine of NeuronCore-v3 and later slows down when it is idle
            (:mod:`throttling`).
    """

    merges: bool = rule("equal loads and work are done once", off=False)
    uses_psum: bool = rule("tiles move to idle PSUM banks", off=False)
    streams: bool = rule("large loaded tensors are loaded at each use", off=False)
    fuses: bool = rule("loops that hand tiles over run together", off=False)
    shifts: bool = rule("results on other partitions are copied there", off=False)
    constants: bool = rule("implied transposes load an identity", off=False)
    splits: bool = rule("independent parts of a tile are placed one by one", off=False)
    buffering: int = rule("sites rotate over twice their live peak", off=1)
    least_bytes: int = rule("small tiles are loaded further ahead", off=0)
    window: int = rule("instructions issue ahead of program order", off=0)
    spare_bytes: int = rule("SBUF kept free when tiles are evicted", off=0, default=18432)
    late_reloads: bool = rule("engines trigger the re-loads they need", off=False, default=True)
    generates_descriptors: bool = rule("descriptors are made at run time", off=False, default=False)
    excludes: bool = rule("engines exclude each other at shared ports", off=False, default=True)
    loads_stationary: bool = rule(
        "stationary operands load visibly after a pause", off=False, default=True
    )
    hides_transposes: bool = rule("transposes run beside other products", off=False, default=True)
    throttles: bool = rule("the Tensor Engine throttles", off=False, default=True)


POLICIES = {
    Dialect.LEGACY: Policy(
        merges=True,
        uses_psum=True,
        streams=True,
        fuses=True,
        shifts=True,
        constants=True,
        splits=True,
        buffering=2,
        least_bytes=8192,
        window=16,
    ),
    Dialect.CURRENT: Policy(
        merges=False,
        uses_psum=False,
        streams=True,
        fuses=False,
        shifts=False,
        constants=False,
        splits=False,
        buffering=0,
        least_bytes=0,
        window=0,
        generates_descriptors=True,
    ),
}


@frozen(slots=True)
class Ablation:
    """A rule, and the override that switches it off.

    Attributes:
        name: field of :class:`Policy`.
        title: what the rule says, for tables.
        off: value of the field without the rule.
    """

    name: str
    title: str
    off: Any


def ablations(policy: Policy) -> tuple[Ablation, ...]:
    """The rules that ``policy`` has in force, in the order of their declaration."""
    return tuple(
        Ablation(f.name, f.metadata["title"], f.metadata["off"])
        for f in attrs.fields(Policy)
        if "off" in f.metadata and getattr(policy, f.name) != f.metadata["off"]
    )
