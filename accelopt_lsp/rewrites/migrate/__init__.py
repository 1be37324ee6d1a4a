"""Whole kernels from the legacy dialect to the current one.

Analysis says what every expression of the kernel is; each statement is then written anew, and
what needs no change stays as it is, byte for byte. A statement that has no current form makes the
migration fail with the line and the reason, unless the caller asks for comments in its place.
"""

from __future__ import annotations

from accelopt_lsp.rewrites.migrate import handlers  # noqa: F401 - registers what it handles
from accelopt_lsp.rewrites.migrate.kernel import MigrateKernel, migrate_text

__all__ = ["MigrateKernel", "migrate_text"]
