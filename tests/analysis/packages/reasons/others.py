import contextlib as others
import os


class Left:
    tiles = 2


class Right:
    count = 3


class Deep(Left, Right):
    width = 4


registered = os.path.join


@registered
class Odd:
    count = 1


def generated(n):
    for i in range(n):
        yield i


def choose():
    return "count"


def pick(owner, name):
    return getattr(owner, name)


@others.mark
def marked(tile):
    return tile


def guarded(n):
    try:
        if n < 1:
            raise ValueError("too few")
        return n
    except ValueError:
        return 3
