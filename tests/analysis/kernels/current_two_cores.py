"""Two cores that exchange tiles and wait for each other."""

import nki
import nki.isa as nisa
import nki.language as nl


# accelopt: x=bf16[2,128,256] target=trn2 grid=2
@nki.jit
def swap(x):
    rank = nl.program_id(0)
    other = 1 - rank
    out = nl.ndarray((2, 128, 256), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    mine = nl.ndarray((128, 256), dtype=nl.bfloat16, buffer=nl.sbuf)
    theirs = nl.ndarray((128, 256), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(dst=mine, src=x[rank])
    for pipe in range(3):
        nisa.sendrecv(
            src=mine, dst=theirs, send_to_rank=other, recv_from_rank=other, pipe_id=pipe
        )
        nisa.tensor_tensor(dst=mine, data1=mine, data2=theirs, op=nl.add)
    nisa.dma_copy(dst=out[rank], src=mine)
    nisa.core_barrier(data=out, cores=(0, 1))
    return out
