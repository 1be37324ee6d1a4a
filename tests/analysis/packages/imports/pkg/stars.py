from .sub.sizes import *
from .tiles import *

EXTRA = ROUNDS + 1
