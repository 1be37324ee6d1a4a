"""The language server: one small file a feature, all wiring in :mod:`~accelopt_lsp.server.app`.

Answers are computed elsewhere: texts are analysed in a warm child process, long jobs run in
children of their own, and handlers turn the results into LSP's terms. LSP types stay in here.
"""

from __future__ import annotations


def start(tcp_port: int | None = None) -> None:
    """Serve on stdin and stdout, or one client on a local TCP port. Returns when it is over."""
    from accelopt_lsp.server.app import serve

    serve(tcp_port)
