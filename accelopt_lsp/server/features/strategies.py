"""``accelopt.forgetStrategy``: take a strategy out of the optimization memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp

from accelopt_lsp.server.analyses import WorkerError

if TYPE_CHECKING:
    from accelopt_lsp.server.app import App

FORGET, KEEP = "Forget", "Keep"


def register(app: App) -> None:
    @app.server.command("accelopt.forgetStrategy")
    async def forget(*arguments: Any) -> None:
        if not arguments or not isinstance(arguments[0], str):
            app.tell("This command needs a strategy's id.", lsp.MessageType.Error)
            return
        id = arguments[0]
        title = arguments[1] if len(arguments) > 1 else id
        question = f'Forget the strategy "{title}"? Optimizations no longer draw on it.'
        if await app.ask(question, (FORGET, KEEP)) != FORGET:
            return
        try:
            problem = await app.worker.request("forget", id, urgent=True)
        except WorkerError as error:
            problem = str(error)
        app.strategies.forget()
        if problem is None:
            app.tell(f'Forgotten: "{title}".')
        else:
            app.tell(f"Not forgotten: {problem}", lsp.MessageType.Error)
