"""What a legacy kernel owes when it ends: written outputs, mutable parameters, allocations.

Error pages and guide to direct allocation of SDK 2.26.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.instructions import INSTRUCTIONS
from accelopt_lsp.nki.operands import Buffer, Engine
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.session import Session
from accelopt_lsp.profiler.simulator.structures import leaves
from accelopt_lsp.profiler.simulator.tensors import Tensor


def check_ending(
    function: Callable[..., Any], session: Session, parameters: Mapping[str, Any], result: Any
) -> None:
    """Rules that are decided when a kernel has run.

    Args:
        parameters: arguments as the kernel saw them, by name.
        result: what it returned.

    Raises:
        KernelRejected: one is broken.
    """
    if session.dialect is not Dialect.LEGACY:
        return
    returned = [part for part in leaves(result) if isinstance(part, Tensor)]
    given = {name: value for name, value in parameters.items() if isinstance(value, Tensor)}
    if session.valued:
        _check_written(session, given, result, returned)
        _check_parameters(function, session, given, result, returned)
    if session.placed is not None:
        _check_allocations(session, returned)


def _check_written(
    session: Session, given: Mapping[str, Tensor], result: Any, returned: list[Tensor]
) -> None:
    """At least one output, and every output written."""
    inputs = {id(tensor.memory) for tensor in session.inputs}
    for tensor in returned:
        memory = tensor.settle()
        if memory.writes or memory.initial is not None or id(memory) in inputs:
            continue
        raise KernelRejected(
            f"the output {memory.name or ''} (created on line {memory.line}) was never written: "
            "0 instructions store to it; is the loop that does so ever entered?",
            "R030",
            memory.line,
        )
    if result is None and given and not any(t.settle().writes for t in session.inputs):
        raise KernelRejected(
            f"the kernel returns nothing and writes to none of its {len(given)} parameters: it has "
            "no output",
            "R030",
        )


def _check_parameters(
    function: Callable[..., Any],
    session: Session,
    given: Mapping[str, Tensor],
    result: Any,
    returned: list[Tensor],
) -> None:
    """Parameters that are written are mutable, and returned.

    Kernels that return nothing write to their parameters in the style of early releases.
    """
    back = {id(tensor.memory) for tensor in returned}
    annotations = getattr(function, "__annotations__", {})
    for name, tensor in given.items():
        if not tensor.settle().writes:
            continue
        annotation = annotations.get(name)
        mutable = getattr(annotation, "mutable", "mutable_tensor" in str(annotation))
        if mutable and id(tensor.memory) not in back:
            raise KernelRejected(
                f"{name} is an nt.mutable_tensor that the kernel writes to and does not return; "
                f"return it with the {len(returned)} other output(s)",
                "R020",
                _first_write(session, tensor),
            )
        if not mutable and result is not None:
            raise KernelRejected(
                f"the kernel writes to its parameter {name}, which is not mutable; annotate it "
                "with nt.mutable_tensor and return it, or write to a tensor of its own",
                "R009",
                _first_write(session, tensor),
            )


def _first_write(session: Session, tensor: Tensor) -> int | None:
    """Line of the first instruction that writes to a tensor, if the run was traced."""
    number = tensor.settle().id
    for template, regions in session.records:
        issue = session.trace.templates[template].issue
        spec = INSTRUCTIONS[issue.op]
        for (role, _), region in zip(issue.operands, regions, strict=True):
            operand = spec.operand(role)
            if region[0] == number and operand is not None and operand.written:
                return session.trace.templates[template].line
    return None


def _check_allocations(session: Session, returned: list[Tensor]) -> None:
    """In a kernel that places tiles itself, nothing is left to the compiler to place."""
    first = session.placed
    for storage in session.trace.storages:
        if storage.buffer is not Buffer.HBM and storage.pinned is None:
            raise KernelRejected(
                f"{storage.name or 'a result'} has no place of its own, but the kernel places "
                f"tiles itself from line {first} on; give it one (buffer=ncc.{storage.buffer}"
                ".alloc), or place none",
                "R047",
                storage.line,
            )
    outputs = {tensor.settle().id for tensor in returned}
    for number, memory, label, line in session.hbm_tensors:
        if number not in outputs:
            raise KernelRejected(
                f"{label or 'a tensor'} in {memory} is not returned, but the kernel places tiles "
                f"itself from line {first} on, where HBM holds inputs and outputs only",
                "R046",
                line,
            )
    _check_instructions(session)


def _check_instructions(session: Session) -> None:
    """Instructions for which the compiler needs tiles of its own."""
    for template in session.trace.templates:
        issue = template.issue
        roles = {role for role, _ in issue.operands}
        if issue.op == "activation" and "bias" not in roles:
            raise KernelRejected(
                "an activation without bias takes a tile of zeros that the compiler places, but "
                f"the kernel places tiles itself from line {session.placed} on; give it a "
                "[P, 1] tile as bias",
                "R007",
                template.line,
            )
        if issue.op == "nc_transpose" and issue.engine is Engine.TENSOR:
            raise KernelRejected(
                "a transpose on the tensor engine takes an identity matrix that the compiler "
                f"places, but the kernel places tiles itself from line {session.placed} on; "
                "multiply with an identity of your own by nc_matmul",
                "R031",
                template.line,
            )
