"""What objects, dictionaries and lists hand from one iteration to the next."""

import nki
import nki.isa as nisa
import nki.language as nl


class Counter(nl.NKIObject):
    def __init__(self, step=1):
        self.n = 0
        self.step = step
        self.log = {}

    def add(self):
        self.n += self.step
        self.log["last"] = self.n
        return self.n


# accelopt: x=f32[128,64]
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    counter, twice = Counter(), Counter(step=2)
    seen = []
    for i in range(64):
        counter.add()
        for _ in range(3):
            twice.add()
        if counter.n == 32:
            nisa.memset(dst=tile, value=1.0)
        if i % 16 == 0:
            seen.append(counter.n)
    for _ in range(counter.log["last"] // 8):
        nisa.memset(dst=tile, value=2.0)
    for _ in range(twice.n // 64):
        nisa.activation(dst=tile, op=nl.exp, data=tile)
    for count in seen:
        if count > 20:
            nisa.tensor_copy(dst=tile, src=tile)
    flags = [False] * 4
    for i in range(8):
        flags[i % 4] = not flags[i % 4]
        if flags[0]:
            nisa.memset(dst=tile, value=4.0)
    nisa.dma_copy(dst=out, src=tile)
    return out
