"""The client's settings in force: one for everything, and one for each workspace folder."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve

from accelopt_lsp.server.configuration import Configuration, read_configuration


class ClientSettings:
    """What the client has configured so far.

    Attributes:
        base: what it started us with; its later settings are read over that.
        default: for documents in no folder, and for what no document decides.
        folders: URIs of the workspace folders with their settings; None where the default counts.
        fetches: how often the client was asked for them; only the last answer counts.
    """

    def __init__(self) -> None:
        self.base = Configuration()
        self.default = self.base
        self.folders: dict[str, Configuration | None] = {}
        self.fetches = 0
        self._told: set[str] = set()

    def untrust(self) -> None:
        """Nothing of the workspace may run, whatever settings say from now on."""
        self.base = evolve(self.base, trusted=False)
        self.default = evolve(self.default, trusted=False)
        self.folders = dict.fromkeys(self.folders)

    def use(self, values: object, folder: str | None = None) -> tuple[str, ...]:
        """Take over a section; gives what cannot be used of it and was not told before."""
        found, problems = read_configuration(values, self.base)
        if folder is None:
            self.default = found
        elif folder in self.folders:
            self.folders[folder] = found
        new = [p for p in dict.fromkeys(problems) if p not in self._told]
        self._told.update(new)
        return tuple(new)

    def add_folders(self, uris: Iterable[str]) -> None:
        """Folders that were opened; the default counts until their own settings are known."""
        for uri in uris:
            self.folders.setdefault(uri)

    def remove_folders(self, uris: Iterable[str]) -> None:
        for uri in uris:
            self.folders.pop(uri, None)

    def of(self, uri: str) -> Configuration:
        """The settings of the innermost folder that holds a document."""
        holding = [f for f in self.folders if uri.startswith(f.rstrip("/") + "/")]
        own = self.folders[max(holding, key=len)] if holding else None
        return self.default if own is None else own
