"""A stack of scopes that loops open and close, with addresses that alternate."""

from dataclasses import dataclass

import nki
import nki.isa as nisa
import nki.language as nl


@dataclass
class Section(nl.NKIObject):
    start: int
    count: int
    current: int = 0


class Manager(nl.NKIObject):
    def __init__(self, size):
        self.size = size
        self.address = 0
        self.highest = 0
        self.made = 0
        self.sections = []

    def open(self, count=1):
        self.sections.append(Section(self.address, count))

    def close(self):
        self.address = self.sections.pop().start

    def step(self):
        top = self.sections[-1]
        top.current = (top.current + 1) % top.count
        if top.current == 0:
            self.address = top.start

    def tile(self, columns, dtype):
        made = nl.ndarray((128, columns), dtype=dtype, buffer=nl.sbuf)
        self.address += columns * 4
        self.made += 1
        assert self.address <= self.size, f"{self.address} of {self.size} bytes"
        if self.address > self.highest:
            self.highest = self.address
        return made


# accelopt: x=f32[128,4096]
@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    manager = Manager(192 * 1024)
    manager.open(2)
    for i in range(8):
        tile = manager.tile(512, x.dtype)
        nisa.dma_copy(dst=tile, src=x[:, i * 512 : (i + 1) * 512])
        manager.open()
        for j in range(4):
            part = manager.tile(128, x.dtype)
            nisa.tensor_copy(dst=part, src=tile[:, j * 128 : (j + 1) * 128])
            if manager.made % 5 == 0:
                nisa.memset(dst=part, value=1.0)
        manager.close()
        nisa.dma_copy(dst=out[:, i * 512 : (i + 1) * 512], src=tile)
        manager.step()
    manager.close()
    for _ in range(manager.highest // 2048):
        nisa.memset(dst=tile, value=0.0)
    for _ in range(manager.made):
        nisa.memset(dst=tile, value=2.0)
    return out
