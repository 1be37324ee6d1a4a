"""One thing that can be written at a place."""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen


class Group(StrEnum):
    """What a suggestion is, for the icon in front of it."""

    MODULE = "module"
    FUNCTION = "function"
    METHOD = "method"
    TYPE = "type"
    ENUM = "enum"
    MEMBER = "member"
    CONSTANT = "constant"
    ATTRIBUTE = "attribute"
    KEYWORD = "keyword"
    VALUE = "value"
    DIRECTIVE = "directive"


@frozen(slots=True)
class Suggestion:
    """One suggestion.

    Attributes:
        label: what is shown and, without a snippet, inserted.
        order: by which suggestions are sorted, before their labels.
        start: where the text begins that it replaces; it ends at the place.
        detail: shown beside the label.
        path: canonical name that it stands for, from which its documentation follows.
        documentation: text of a suggestion without such a name.
        snippet: with ``${1:...}`` places to fill in, for editors that know these.
    """

    label: str
    group: Group
    order: str
    start: int
    detail: str = ""
    path: str | None = None
    documentation: str = ""
    snippet: str | None = None
    deprecated: bool = False
