"""SiLU gate of a feed-forward block as a first version: tiles of 512 columns."""

import nki
import nki.isa as nisa
import nki.language as nl

P = 128
TILE = 512


# accelopt: gate=bf16[4096,3072] up=bf16[4096,3072]
@nki.jit
def silu_gate(gate, up):
    """Return gate * sigmoid(gate) * up, element by element."""
    rows, columns = gate.shape
    assert rows % P == 0
    assert columns % TILE == 0
    out = nl.ndarray((rows, columns), dtype=gate.dtype, buffer=nl.shared_hbm)

    for i in range(rows // P):
        for j in range(columns // TILE):
            gate_tile = nl.ndarray((P, TILE), dtype=gate.dtype, buffer=nl.sbuf)
            up_tile = nl.ndarray((P, TILE), dtype=up.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=gate_tile, src=gate[i * P : (i + 1) * P, j * TILE : (j + 1) * TILE])
            nisa.dma_copy(dst=up_tile, src=up[i * P : (i + 1) * P, j * TILE : (j + 1) * TILE])

            sigmoid = nl.ndarray((P, TILE), dtype=gate.dtype, buffer=nl.sbuf)
            nisa.activation(dst=sigmoid, op=nl.sigmoid, data=gate_tile)
            silu = nl.ndarray((P, TILE), dtype=gate.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=silu, data1=gate_tile, data2=sigmoid, op=nl.multiply)
            out_tile = nl.ndarray((P, TILE), dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=out_tile, data1=silu, data2=up_tile, op=nl.multiply)

            nisa.dma_copy(dst=out[i * P : (i + 1) * P, j * TILE : (j + 1) * TILE], src=out_tile)

    return out
