from .. import tiles as _tiles

PARTITIONS = 128
ROUNDS = 3


def twice(n):
    return n + n if _tiles.PARTITIONS == PARTITIONS else 0
