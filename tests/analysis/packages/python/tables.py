from . import enum_members as members
from .calls import depth as how_deep

SIZES = [2**n for n in range(4)]
BY_NAME = {mode.name: mode.value for mode in members.Mode}
DEEP = how_deep(8)
if len(SIZES) > 3:
    LARGE = True
else:
    LARGE = False
try:
    from .missing import thing
except ImportError:
    thing = 5
THING = thing
FIRST, *REST = SIZES
COUNTER = 1
BEFORE = COUNTER + 0
COUNTER = COUNTER + 10
for _step in range(3):
    COUNTER += _step
