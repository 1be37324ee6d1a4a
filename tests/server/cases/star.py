#: offers load store
from nki.language import *


def kernel(x):
    pass
    lo‸
