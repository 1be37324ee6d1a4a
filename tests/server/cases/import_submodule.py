#: offers language isa collectives
#: lacks compiler
from nki import ‸
