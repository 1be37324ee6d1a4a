from enum import Enum, IntEnum, auto


class Mode(Enum):
    FAST = 1
    SLOW = 2
    ALSO_FAST = 1

    @property
    def factor(self):
        return self.value * 10

    def next(self):
        return Mode.SLOW if self is Mode.FAST else Mode.FAST

    @staticmethod
    def default():
        return Mode.SLOW


class Level(IntEnum):
    LOW = auto()
    HIGH = auto()


class Name(str, Enum):
    A = "first"
    B = "second"


TABLE = {Mode.FAST: 128, Mode.SLOW: 64}

VALUES = (Mode.FAST.value, Mode.SLOW.name, Mode.ALSO_FAST.name)
LOOKUP = (Mode(2).name, Mode["FAST"].value, TABLE[Mode.FAST], TABLE.get(Mode(2)))
COMPARED = (Mode.FAST == Mode.ALSO_FAST, Mode.FAST is Mode.SLOW, Mode.FAST != Mode.SLOW)
ITERATED = [m.name for m in Mode]
NUMBER = len(Mode)
METHODS = (Mode.SLOW.factor, Mode.FAST.next().name, Mode.default().value)
ORDERED = (Level.HIGH > Level.LOW, Level.HIGH + 1, Level.HIGH.name, int(Level.LOW))
TEXT = (Name.A == "first", Name.B.value, Name("second").name)
AMONG = (Mode.FAST in (Mode.SLOW, Mode.FAST), Mode.SLOW in [Mode.FAST])
KINDS = (isinstance(Mode.FAST, Mode), isinstance(Level.LOW, int), isinstance(1, Mode))
