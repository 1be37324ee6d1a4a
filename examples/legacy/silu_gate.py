"""SiLU gate of a feed-forward block as a first version: tiles of 512 columns."""

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

P = nl.tile_size.pmax
TILE = 512


# accelopt: gate=bf16[4096,3072] up=bf16[4096,3072]
@nki.jit
def silu_gate(gate, up):
    """Return gate * sigmoid(gate) * up, element by element."""
    rows, columns = gate.shape
    assert rows % P == 0
    assert columns % TILE == 0
    out = nl.ndarray((rows, columns), dtype=gate.dtype, buffer=nl.shared_hbm)

    for i in nl.affine_range(rows // P):
        for j in nl.affine_range(columns // TILE):
            gate_tile = nl.load(gate[nl.ds(i * P, P), nl.ds(j * TILE, TILE)])
            up_tile = nl.load(up[nl.ds(i * P, P), nl.ds(j * TILE, TILE)])
            sigmoid = nl.sigmoid(gate_tile)
            silu = nl.multiply(gate_tile, sigmoid)
            out_tile = nl.multiply(silu, up_tile)
            nl.store(out[nl.ds(i * P, P), nl.ds(j * TILE, TILE)], value=out_tile)

    return out
