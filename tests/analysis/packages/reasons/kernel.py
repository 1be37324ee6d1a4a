"""What analysis does not follow: each kernel says why in its own words."""

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
