"""What can go wrong while a kernel is executed on the simulator."""

from __future__ import annotations


class SimulationError(Exception):
    """Base of all errors that name a fault of the kernel, not of the simulator.

    Attributes:
        line: place in the kernel's source, where the error knows better than its traceback.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class KernelRejected(SimulationError):
    """The hardware or the compiler would refuse this.

    Attributes:
        code: stable code of the broken rule, for example ``R023``; ``R101`` where arguments
            make no sense.
    """

    def __init__(self, message: str, code: str = "R101", line: int | None = None) -> None:
        super().__init__(message, line)
        self.code = code
        self.add_note(f"rule {code}: accelopt explain {code}")


class NameMissing(KernelRejected, AttributeError):
    """A name of NKI that the kernel's dialect does not have, as code that asks for it sees it."""


WRITE_FIRST = "; write it first (a load, nisa.memset, nl.zeros), or leave it out"
"""What to do about R099."""
STRIDED_PARTITIONS = (
    "partitions cannot be strided; take a run of them, or spread them by a transfer from HBM"
)
"""Message of R082."""
MIXED_INDICES = (
    "slices and indices (nl.arange, arrays) cannot be mixed; index every dimension by one kind"
)
"""Message of R035."""


class ValuesNeeded(KernelRejected):
    """Control flow depends on a value that is unknown while only shapes are traced."""


class IndexOutside(KernelRejected):
    """An index that became known at run time leaves its tensor.

    Attributes:
        position: the first such element, counted in the allocation.
        size: elements of the allocation.
    """

    def __init__(self, message: str, line: int | None, position: int, size: int) -> None:
        super().__init__(message, "R028", line)
        self.position = position
        self.size = size


class UnsupportedByKernel(SimulationError, AttributeError):
    """A name or a feature of NKI that the simulator does not know."""


class InstructionLimit(SimulationError):
    """More instructions were issued than a kernel may issue."""


class KernelNotFound(SimulationError):
    """The file has no such kernel."""


class ArgumentFault(SimulationError):
    """The arguments do not fit the kernel or the reference."""


class ReferenceFault(SimulationError):
    """The reference file cannot be used."""


class SandboxViolation(PermissionError):
    """Kernel code tried something that the sandbox does not allow."""


class OutOfTime(BaseException):
    """Raised in the kernel's thread when its time is up.

    Not an :class:`Exception`, so that a kernel's ``except Exception`` does not swallow it.
    """
