"""What analysis does not follow: each kernel says why in its own words."""

import bisect

import nki
import nki.isa as nisa
import nki.language as nl

from .others import Deep, Odd, choose, generated, guarded, marked, pick


# accelopt: x=f32[128,64]
# expect-reason: Deep.tile is not known: class Deep inherits from several classes
@nki.jit
def several_bases(x):
    tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    for _ in range(Deep.tile):
        nisa.memset(dst=tile, value=0.0)


# accelopt: x=f32[128,64]
# expect-reason: class Odd has the decorator registered
@nki.jit
def unknown_class_decorator(x):
    tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    for _ in range(Odd().count):
        nisa.memset(dst=tile, value=0.0)


# accelopt: x=f32[128,64]
# expect-reason: generated is a generator
@nki.jit
def from_generator(x):
    tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    for _ in generated(3):
        nisa.memset(dst=tile, value=0.0)


# accelopt: x=f32[128,64]
# expect-reason: getattr() with a name that is not known
@nki.jit
def computed_name(x, name=None):
    tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    for _ in range(pick(x, choose)):
        nisa.memset(dst=tile, value=0.0)


# accelopt: x=f32[128,64]
# expect-reason: marked has the decorator others.mark
@nki.jit
def unknown_decorator(x):
    tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    marked(tile)


# accelopt: x=f32[128,64]
# expect-reason: an exception is raised and caught
@nki.jit
def caught(x):
    tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    for _ in range(guarded(0)):
        nisa.memset(dst=tile, value=0.0)


# accelopt: x=f32[128,64]
# expect-reason: an iterator that was used up before
@nki.jit
def iterator_used_up(x):
    tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    pairs = zip([1, 2], [3, 4], strict=True)
    for _ in range(2):
        for a, b in pairs:
            nisa.memset(dst=tile[:, a : a + b], value=0.0)


# accelopt: x=f32[128,64]
# expect-reason: an iterator that is kept under a name
@nki.jit
def generator_kept(x):
    tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    width = 1
    widths = (width * i for i in range(1, 4))
    width = 4
    for n in widths:
        nisa.memset(dst=tile[:, 0:n], value=0.0)


# accelopt: x=f32[128,64]
# expect-reason: a generator that does something and may end early
@nki.jit
def generator_ends_early(x):
    tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)

    def touch(i):
        nisa.memset(dst=tile[:, i : i + 1], value=0.0)
        return i

    any(touch(i) > 2 for i in range(8))


# accelopt: x=f32[128,64]
# expect-reason: a list that changes while a loop goes over it
@nki.jit
def list_grows_under_loop(x):
    tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    widths = [32]
    for width in widths:
        nisa.memset(dst=tile[:, 0:width], value=0.0)
        if width > 4:
            widths.append(width // 2)


# accelopt: x=f32[128,64]
# expect-reason: the length of a text that is not known
@nki.jit
def length_of_text(x):
    tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(5, 12):
        for _ in range(len(f"{i}")):
            nisa.memset(dst=tile, value=0.0)


# accelopt: x=f32[128,64]
# expect-reason: a key of the dictionary is not known
@nki.jit
def unknown_key(x):
    tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    widths = {}
    for i in range(6):
        widths["%s" % x.shape[i:]] = i
    for width in widths.values():
        nisa.memset(dst=tile[:, 0 : width + 1], value=0.0)


# accelopt: x=f32[128,64]
# expect-reason: it depends on whether some_package_of_others is installed
@nki.jit
def optional_package(x):
    tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    try:
        import some_package_of_others  # noqa: F401

        count = 1
    except ImportError:
        count = 2
    for _ in range(count):
        nisa.memset(dst=tile, value=0.0)


class Counted:
    count = 0

    def __new__(cls, *given):
        cls.count += 1
        return super().__new__(cls)


class Held:
    count = 2


# accelopt: x=f32[128,64]
# expect-reason: class Counted has its own __new__
@nki.jit
def hooks_of_python(x):
    tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    Counted()
    for _ in range(Counted.count):
        nisa.memset(dst=tile, value=0.0)


# accelopt: x=f32[128,64]
# expect-reason: bisect.insort changes a list
@nki.jit
def list_changed_by_library(x):
    tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    widths = [1, 9]
    bisect.insort(widths, 4)
    for width in widths:
        nisa.memset(dst=tile[:, 0:width], value=0.0)


# accelopt: x=f32[128,64]
# expect-reason: the loop is not counted: the number of iterations is not known: it depends on a
@nki.jit
def changed_where_skipped(x):
    tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    held = Held()
    held.count = 9
    if len(generated(2)) > 1:
        held.count = 2
    for _ in range(held.count):
        nisa.memset(dst=tile, value=0.0)
