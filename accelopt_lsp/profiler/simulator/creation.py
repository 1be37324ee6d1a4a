"""Functions that create tensors: ``nl.ndarray``, ``nl.zeros``, ``nl.shared_constant``, ..."""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import prod
from types import FrameType
from typing import Any

import numpy as np
from attrs import field, frozen

from accelopt_lsp.nki.dialects import Dialect
from accelopt_lsp.nki.dtypes import DType
from accelopt_lsp.nki.operands import Buffer
from accelopt_lsp.profiler.simulator import state as sessions
from accelopt_lsp.profiler.simulator.assignment import fill
from accelopt_lsp.profiler.simulator.blocks import BlockTable, BlockTensor
from accelopt_lsp.profiler.simulator.elements import ElementType, as_dtype, to_carrier
from accelopt_lsp.profiler.simulator.errors import KernelRejected
from accelopt_lsp.profiler.simulator.indexing import decide, running_loops
from accelopt_lsp.profiler.simulator.library import entry_of
from accelopt_lsp.profiler.simulator.placing import check_place, check_shared, check_value
from accelopt_lsp.profiler.simulator.session import Session
from accelopt_lsp.profiler.simulator.source import Site
from accelopt_lsp.profiler.simulator.tensors import Tensor

Address = Callable[[tuple[int, ...], int, int], tuple[int, int]]


class PartitionSize(int):
    """``nl.par_dim(size)``: the size of the partition dimension."""


def par_dim(size: int) -> PartitionSize:
    return PartitionSize(size)


@frozen(slots=True, eq=False)
class MemoryRegion:
    """A buffer name of ``nki.language``, possibly with a place chosen by the writer.

    It equals the memory of any tensor that is in it: kernels ask ``x.buffer == nl.sbuf``.

    Attributes:
        name: ``sbuf``, ``psum``, ``hbm``, ``private_hbm`` or ``shared_hbm``.
        address: block index, partitions and bytes a partition to (start partition, byte).
        buffer: the memory itself.
    """

    name: str
    address: Address | None = None
    buffer: Buffer = field(init=False)

    @buffer.default
    def _buffer(self) -> Buffer:
        return Buffer.HBM if self.name.endswith("hbm") else Buffer(self.name)

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        if isinstance(other, MemoryRegion):
            return self.name == other.name
        return isinstance(other, Buffer) and self.buffer is other

    def __hash__(self) -> int:
        return hash(self.buffer)

    def mod_alloc(
        self,
        *,
        base_addr: int = 0,
        base_bank: int = 0,
        base_partition: int = 0,
        num_par_tiles: Any = (),
        num_free_tiles: Any = (),
        num_bank_tiles: Any = (),
    ) -> MemoryRegion:
        """Legacy direct allocation: blocks rotate over so many places."""

        def address(index: tuple[int, ...], partitions: int, nbytes: int) -> tuple[int, int]:
            place = _rotated(index, num_bank_tiles or num_free_tiles)
            row = _rotated(index, num_par_tiles)
            bank = 2048 if self.name == "psum" else nbytes
            start = base_addr + base_bank * 2048 + place * bank
            return base_partition + row * partitions, start

        return MemoryRegion(self.name, address)

    def alloc(self, function: Callable[..., Any]) -> MemoryRegion:
        """Legacy direct allocation by a function of block index and tile size."""

        def address(index: tuple[int, ...], partitions: int, nbytes: int) -> tuple[int, int]:
            place = function(index, partitions, nbytes)
            if self.name == "psum":
                bank, start, byte = place
                return int(start), int(bank) * 2048 + int(byte)
            start, byte = place
            return int(start), int(byte)

        return MemoryRegion(self.name, address)


def _rotated(index: tuple[int, ...], counts: Any) -> int:
    sizes = (counts,) if isinstance(counts, int) else tuple(counts)
    flat = 0
    for position, count in zip(index[len(index) - len(sizes) :], sizes, strict=False):
        flat = flat * count + position % count
    return flat


def region_of(value: Any, default: str) -> MemoryRegion:
    """The memory that ``buffer=`` names.

    Raises:
        KernelRejected: no such memory.
    """
    if value is None:
        return MemoryRegion(default)
    if isinstance(value, MemoryRegion):
        return value
    name = str(value).rpartition(".")[2]
    if name in ("sbuf", "psum", "hbm", "private_hbm", "shared_hbm"):
        return MemoryRegion(name)
    raise KernelRejected(f"unknown buffer {value!r}; known: nl.sbuf, nl.psum, nl.shared_hbm")


def element_of(value: Any) -> DType:
    """The data type that ``dtype=`` names.

    Raises:
        KernelRejected: no such data type.
    """
    if type(value) is ElementType:
        return value.element
    found = as_dtype(value)
    if found is None:
        raise KernelRejected(f"{value!r} is no data type of NKI")
    return found


def shape_of(value: Any) -> tuple[Any, ...]:
    """Sizes, with the partition dimension still marked."""
    sizes = tuple(value) if isinstance(value, list | tuple) else (value,)
    for size in sizes:
        if type(size) is not int and not isinstance(size, int | np.integer):
            raise KernelRejected(f"sizes must be integers, got {list(sizes)}")
    return sizes


def _running(name: str) -> Session:
    session = sessions.current()
    if session is None:
        raise KernelRejected(
            f"nl.{name} was called outside a kernel; call it in a function decorated with nki.jit",
            "R022",
        )
    session.flush()
    return session


def create(
    session: Session,
    shape: tuple[Any, ...],
    element: DType,
    region: MemoryRegion,
    value: Any,
    name: str,
    frame: FrameType,
    pinned: tuple[int, int] | None = None,
) -> Tensor | BlockTensor:
    """A tensor with or without a first value; blocks get allocations of their own."""
    site, line = session.locate(frame)
    label = name or site.target
    first, sizes = 0, shape
    for position, size in enumerate(shape):
        if type(size) is not int:
            sizes = tuple([int(n) for n in shape])
            if type(size) is PartitionSize:
                first = position
                break
    buffer = region.buffer
    if pinned is not None and buffer is not Buffer.HBM:
        check_place(session.dialect, session.target, sizes, element, buffer, pinned)
    if buffer is Buffer.HBM:
        return _create_hbm(session, sizes, element, region, value, label, site, line)
    number = session.storage_site(site)
    if first == 0 and value is None and region.address is None:
        return session.allocate(
            sizes, element, buffer, name=label, line=line, site=number, pinned=pinned
        )
    serial = 0 if session.abridging is None else session.abridging.serial()
    table = BlockTable(sizes[:first], serial, len(session.records))
    # The compiler sees the body of a loop once: a place that Python code adds up in it is that of
    # the first iteration, and what a later one makes of it here is no place at all.
    once = region.address is not None and all(index.first for index in running_loops())

    def make(index: tuple[int, ...], table: BlockTable) -> Tensor:
        tile = sizes[first:]
        place = pinned
        if region.address is not None:
            decide()
            place = region.address(index, tile[0], prod(tile[1:]) * element.nbytes)
            if once:
                check_place(session.dialect, session.target, tile, element, buffer, place)
            if session.placed is None:
                session.placed = line
        tensor = session.allocate(
            tile,
            element,
            buffer,
            name=label,
            line=line,
            site=number,
            pinned=place,
            born=table.born,
        )
        if first:
            tensor.settle().block = table.serial
        if value is not None and buffer is Buffer.PSUM and value == 0:
            tensor.settle().fill(0)
        elif value is not None:
            fill(session, tensor, value, site, line)
        return tensor

    if first == 0:
        return make((), table)
    blocks = BlockTensor(sizes[:first], sizes[first:], element, buffer, make, table)
    session._check_tile(sizes[first:], prod(sizes[first + 1 :]) * element.nbytes, buffer)
    if value is not None and not (buffer is Buffer.PSUM and value == 0):
        for index in np.ndindex(*sizes[:first]):
            blocks.block(tuple(int(i) for i in index))
    return blocks


def _create_hbm(
    session: Session,
    sizes: tuple[int, ...],
    element: DType,
    region: MemoryRegion,
    value: Any,
    label: str,
    site: Site,
    line: int,
) -> Tensor:
    key = None
    if region.name == "shared_hbm":
        check_shared(session.dialect, label)
    if region.name == "shared_hbm" and session.grid:
        decide()
        key = session.shared.key(label, sizes, element)
        found = session.shared.get(key)
        if found is not None:
            return found
    tensor = session.allocate(
        sizes,
        element,
        Buffer.HBM,
        name=label,
        line=line,
        site=session.storage_site(site),
    )
    memory = tensor.settle()
    session.hbm_tensors.append((memory.id, region.name, label, line))
    if value is not None:
        memory.fill(value)
    if key is not None:
        session.shared.put(key, tensor)
    return tensor


def identity(session: Session, n: int, element: DType) -> Tensor:
    """The identity matrix of that size and type in HBM: one for all calls of a kernel."""
    key = ("identity", n, element)
    found = session._constants.get(key)
    if found is None:
        if session.abridging is not None:
            session.abridging.once()
        found = session._constants[key] = session.allocate(
            (n, n), element, Buffer.HBM, name="identity", line=0, site=-1 - len(session._constants)
        )
        found.settle().adopt(to_carrier(np.identity(n), element))
    return found


def creation_functions(dialect: Dialect) -> dict[str, Callable[..., Any]]:
    """The functions of ``nki.language`` in a dialect that create tensors."""
    getframe = sys._getframe

    def filled(name: str, value: Any) -> Callable[..., Any]:
        entry = entry_of(f"nl.{name}", dialect)

        def function(*args: Any, **kwargs: Any) -> Any:
            session = _running(name)
            bound = entry.bind(args, kwargs)
            wanted = bound["fill_value"] if name == "full" else value
            address = bound.get("address")
            pinned = None if address is None else (int(address[0]), int(address[1]))
            region = region_of(bound.get("buffer"), "sbuf")
            if wanted is not None:
                check_value(dialect, name, region.name, placed=region.address is not None)
            return create(
                session,
                shape_of(bound["shape"]),
                element_of(bound["dtype"]),
                region,
                wanted,
                str(bound.get("name") or ""),
                getframe(1),
                pinned,
            )

        function.__name__ = function.__qualname__ = name
        return function

    def like(name: str, value: Any) -> Callable[..., Any]:
        entry = entry_of(f"nl.{name}", dialect)

        def function(*args: Any, **kwargs: Any) -> Any:
            session = _running(name)
            bound = entry.bind(args, kwargs)
            model = bound["a" if dialect is Dialect.LEGACY else "x"]
            if not isinstance(model, Tensor):
                raise KernelRejected(f"nl.{name} takes a tensor, got {type(model).__name__}")
            given = bound.get("dtype")
            element = model.element if given is None else element_of(given)
            region = region_of(bound.get("buffer") or model.buffer.value, "sbuf")
            label = str(bound.get("name") or "")
            return create(session, model.shape, element, region, value, label, getframe(1))

        function.__name__ = function.__qualname__ = name
        return function

    def shared_constant(constant: Any, dtype: Any = None) -> Tensor:
        session = _running("shared_constant")
        values = np.load(constant) if isinstance(constant, str) else np.asarray(constant)
        element = element_of(values.dtype if dtype is None else dtype)
        site, line = session.locate(getframe(1))
        tensor = session.allocate(
            values.shape,
            element,
            Buffer.HBM,
            name=site.target or "constant",
            line=line,
            site=session.storage_site(site),
        )
        tensor.settle().hold(to_carrier(values, element))
        return tensor

    def shared_identity_matrix(n: int, dtype: Any = "uint8", dst: Any = None, **_: Any) -> Tensor:
        element = element_of(dtype)
        session = _running("shared_identity_matrix")
        matrix = identity(session, int(n), element)
        if dialect is Dialect.LEGACY:
            return matrix
        site, line = session.locate(getframe(1))
        if dst is None:
            dst = session.allocate(
                (int(n), int(n)),
                element,
                Buffer.SBUF,
                name=site.target or "identity",
                line=line,
                site=session.storage_site(site),
            )
        entry = entry_of("nisa.dma_copy", dialect)
        bound = entry.bind((dst, matrix), {})
        session.run(session.plan(entry, bound), bound, None, site, line)
        return dst  # type: ignore[no-any-return]

    return {
        "ndarray": filled("ndarray", None),
        "zeros": filled("zeros", 0.0),
        "ones": filled("ones", 1.0),
        "full": filled("full", None),
        "zeros_like": like("zeros_like", 0.0),
        "empty_like": like("empty_like", None),
        "shared_constant": shared_constant,
        "shared_identity_matrix": shared_identity_matrix,
    }
