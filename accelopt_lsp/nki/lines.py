"""Lines of a program text, as Python counts them."""

from __future__ import annotations

import io


def split_lines(text: str) -> list[str]:
    """Lines with their ends, which are ``\\n``, ``\\r\\n`` and ``\\r`` alone.

    ``str.splitlines`` ends lines at form feeds, U+2028 and others as well, after which line
    numbers of syntax trees and of editors name other lines.
    """
    return list(io.StringIO(text, newline=""))
