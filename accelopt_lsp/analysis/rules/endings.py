"""What a kernel owes when it ends: outputs, mutable parameters, places for all of its tiles.

Sources: legacy error catalogue, known issues and guide to direct allocation (SDK 2.26).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accelopt_lsp.analysis.machine import Machine, Record
from accelopt_lsp.analysis.rules.base import Context, TableRule
from accelopt_lsp.analysis.values import ListValue, Storage, Unknown, Value, View
from accelopt_lsp.nki.diagnostics import Diagnostic
from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.lowering import RESULT
from accelopt_lsp.nki.operands import Engine


def returned_views(value: Value) -> list[View]:
    """Tensors in what a kernel returns."""
    if isinstance(value, View):
        return [value]
    items = value.items if isinstance(value, ListValue) else value
    if isinstance(items, dict):
        items = tuple(items.values())
    if isinstance(items, tuple | list):
        return [view for item in items for view in returned_views(item)]
    return []


def _result_known(machine: Machine) -> bool:
    """Whether all that the kernel returns is known."""

    def known(value: Value) -> bool:
        items = value.items if isinstance(value, ListValue) else value
        if isinstance(items, tuple | list):
            return all(known(item) for item in items)
        return not isinstance(items, Unknown)

    return known(machine.result)


def _writers(machine: Machine, storage: Storage) -> Iterator[tuple[Record, ast.AST]]:
    """Calls that write to a tensor, with the argument that names it."""
    for record in machine.records:
        for issue in record.lowered.issues:
            for slot in issue.writes:
                base = slot.partition("@")[0]
                view = record.views.get(base)
                if view is not None and view.storage is storage:
                    yield record, record.nodes.get(base, record.node)


def _parameters(context: Context) -> Iterator[tuple[Storage, bool]]:
    """Tensors that are parameters of the kernel, and whether they are mutable."""
    for storage in context.machine.storages:
        parameter = context.kernel.parameter(storage.name)
        if storage.kind == "input" and parameter is not None:
            yield storage, "mutable_tensor" in (parameter.annotation or "")


class ImmutableParameter(TableRule):
    code = "R009"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        machine = context.machine
        if context.kernel.dialect is not Dialect.LEGACY or not returned_views(machine.result):
            return
        for storage, mutable in _parameters(context):
            place = next(_writers(machine, storage), None)
            if place is not None and not mutable:
                text = (
                    f"the kernel writes to its parameter {storage.name}, which is not mutable; "
                    "annotate it with nt.mutable_tensor and return it, or write to a tensor of "
                    "the kernel's own"
                )
                yield self.diagnostic(context, place[1], text)


class MutableNotReturned(TableRule):
    code = "R020"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        machine = context.machine
        if context.kernel.dialect is not Dialect.LEGACY or not _result_known(machine):
            return
        back = {view.storage.id for view in returned_views(machine.result)}
        if not back:
            # Kernels in the style of early releases return nothing.
            return
        for storage, mutable in _parameters(context):
            place = next(_writers(machine, storage), None)
            if place is not None and mutable and storage.id not in back:
                text = (
                    f"{storage.name} is an nt.mutable_tensor that the kernel writes to, but it is "
                    "not returned; return it with the other outputs"
                )
                yield self.diagnostic(context, place[1], text)


class OutputNotWritten(TableRule):
    code = "R030"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        machine = context.machine
        if context.kernel.dialect is not Dialect.LEGACY or machine.unknowns:
            return
        written = {a.storage.id for a in machine.accesses if a.written} | machine.written
        for view in returned_views(machine.result):
            storage = view.storage
            if storage.kind == "tensor" and storage.id not in written:
                yield Diagnostic(
                    self.code,
                    self.severity,
                    f"the output {storage.name} {list(storage.shape)} is never written: 0 "
                    "instructions store to it; is the loop that does so ever entered?",
                    self.place(context, storage),
                )


class ScratchInHbm(TableRule):
    code = "R046"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        machine = context.machine
        if not _placed_by_writer(context) or not _result_known(machine):
            return
        back = {view.storage.id for view in returned_views(machine.result)}
        for storage in machine.storages:
            if storage.kind != "tensor" or storage.buffer.on_chip or storage.id in back:
                continue
            yield Diagnostic(
                self.code,
                self.severity,
                f"{storage.name or 'a tensor'} in {storage.memory} is not returned, but the kernel "
                f"places tiles itself from line {machine.placed_line} on, where HBM holds inputs "
                "and outputs only",
                self.place(context, storage),
            )


class MixedAllocation(TableRule):
    code = "R047"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        machine = context.machine
        if not _placed_by_writer(context) or machine.unknowns:
            return
        seen: set[int] = set()
        for record in machine.records:
            for issue in record.lowered.issues:
                for slot in issue.writes:
                    view = record.views.get(slot.partition("@")[0])
                    if view is None or view.storage.id in seen or not view.on_chip:
                        continue
                    storage = view.storage
                    seen.add(storage.id)
                    if storage.placed or storage.kind == "input":
                        continue
                    node = record.node if slot == RESULT else storage.node or record.node
                    yield self.diagnostic(
                        context,
                        node,
                        f"{storage.name or 'this result'} has no place of its own, but the kernel "
                        f"places tiles itself from line {machine.placed_line} on; give it one "
                        f"(buffer=ncc.{storage.buffer.value}.alloc), or place none",
                    )


class BiasOfPlacedActivation(TableRule):
    code = "R007"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        if not _placed_by_writer(context):
            return
        for record in context.machine.records:
            for issue in record.lowered.issues:
                if issue.op == "activation" and "bias" not in dict(issue.operands):
                    text = (
                        "an activation without bias takes a tile of zeros that the compiler "
                        "places, but the kernel places tiles itself from line "
                        f"{context.machine.placed_line} on; give it a [P, 1] tile as bias"
                    )
                    yield self.diagnostic(context, record.node, text)


class TransposeWithPlacedTiles(TableRule):
    code = "R031"

    def check(self, context: Context) -> Iterator[Diagnostic]:
        if not _placed_by_writer(context):
            return
        for record in context.machine.records:
            for issue in record.lowered.issues:
                if issue.op == "nc_transpose" and issue.engine is Engine.TENSOR:
                    text = (
                        "a transpose on the tensor engine takes an identity matrix that the "
                        "compiler places, but the kernel places tiles itself from line "
                        f"{context.machine.placed_line} on; multiply with an identity of your own "
                        "by nc_matmul"
                    )
                    yield self.diagnostic(context, record.node, text)


def _placed_by_writer(context: Context) -> bool:
    """Direct allocation: the legacy kernel places tiles itself."""
    machine = context.machine
    return machine.placed and context.kernel.dialect is Dialect.LEGACY
