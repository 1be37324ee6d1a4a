"""The same helper call again and again: what it returns, changes and reads each time."""

import nki
import nki.isa as nisa
import nki.language as nl


class Window(nl.NKIObject):
    scale = 1

    def __init__(self, tensor, start=0, size=None):
        assert start >= 0, f"start {start} must not be negative"
        self.tensor = tensor
        self.start = start
        self.size = size if size is not None else tensor.shape[1] - start
        self.marks = []

    def part(self, start, size):
        assert start + size <= self.size, f"{size} from {start} do not fit {self.size}"
        found = Window(self.tensor, self.start + start, size)
        found.marks = [mark for mark in self.marks if mark < size]
        return found

    def read(self):
        return self.tensor[:, nl.ds(self.start, self.size)]

    def mark(self, number):
        for existing in self.marks:
            if existing == number:
                return False
        self.marks.append(number)
        return True

    def count(self):
        total = 0
        for mark in self.marks:
            total = total + mark * Window.scale
        return total

    def same(self):
        for mark in self.marks:
            if mark < 0:
                return None
        return self


class Steps(nl.NKIObject):
    def __init__(self):
        self.number = 0
        self.limits = {"most": 2}

    def room(self):
        left = self.limits["most"] - self.number
        if left < 0:
            left = 0
        return left

    def advance(self, by):
        before = self.number
        self.number = self.number + by
        return before


def pieces(window, count):
    size = window.size // count
    found = []
    for piece in range(count):
        found.append(window.part(piece * size, size))
    return found


# accelopt: x=f32[128,256] y=bf16[128,256]
@nki.jit
def kernel(x, y):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    first = nl.ndarray((128, 256), dtype=x.dtype, buffer=nl.sbuf)
    second = nl.ndarray((128, 256), dtype=y.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=first, src=x)
    nisa.dma_copy(dst=second, src=y)
    for i in range(8):
        for tensor in (first, second):
            window = Window(tensor).part(i * 32, 32)
            nisa.activation(dst=window.read(), op=nl.exp, data=window.read())
            for piece in pieces(window, 2):
                nisa.tensor_copy(dst=piece.read(), src=piece.read())

    # Results are objects of their own: a mark in one is none in the other.
    whole = Window(first)
    left, right = whole.part(0, 64), whole.part(0, 64)
    left.mark(3)
    left.mark(3)
    for _ in range(left.count() - right.count()):
        nisa.memset(dst=right.read(), value=1.0)

    # The object itself comes back, not a likeness.
    whole.same().mark(2)
    whole.same().mark(5)
    for _ in range(whole.count()):
        nisa.memset(dst=whole.read(), value=2.0)
    for _ in range(whole.part(0, 4).count()):
        nisa.tensor_copy(dst=whole.part(0, 4).read(), src=whole.part(4, 4).read())

    # What a helper reads changes between calls: fields, items of a dictionary.
    steps = Steps()
    for i in range(6):
        if steps.room() > 0:
            nisa.memset(dst=first[:, i : i + 1], value=3.0)
        steps.advance(1)
        if i == 3:
            steps.limits["most"] = 5
    for _ in range(steps.number):
        nisa.memset(dst=first, value=4.0)

    # A tensor of the same shape in another memory.
    product = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.psum)
    for tensor in (first, product):
        part = Window(tensor).part(0, 64)
        if part.tensor.buffer == nl.psum:
            nisa.memset(dst=part.read(), value=0.0)
        else:
            nisa.tensor_copy(dst=part.read(), src=part.read())
    nisa.dma_copy(dst=out, src=first)
    return out
