"""Rotary position embedding as a first version: one head after the other."""

import nki
import nki.isa as nisa
import nki.language as nl

P = 128
HEAD = 128
HALF = HEAD // 2


# accelopt: q=f32[4096,1024] cos=f32[4096,64] sin=f32[4096,64]
@nki.jit
def rotary(q, cos, sin):
    """Rotate the halves of every head: [q1 cos - q2 sin, q2 cos + q1 sin].

    q holds the heads of one position side by side: [positions, heads * 128].
    """
    positions, width = q.shape
    assert positions % P == 0
    assert width % HEAD == 0
    out = nl.ndarray((positions, width), dtype=q.dtype, buffer=nl.shared_hbm)

    for i in range(positions // P):
        for h in range(width // HEAD):
            cos_tile = nl.ndarray((P, HALF), dtype=cos.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=cos_tile, src=cos[i * P : (i + 1) * P, 0:HALF])
            sin_tile = nl.ndarray((P, HALF), dtype=sin.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=sin_tile, src=sin[i * P : (i + 1) * P, 0:HALF])
            head = nl.ndarray((P, HEAD), dtype=q.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=head, src=q[i * P : (i + 1) * P, h * HEAD : (h + 1) * HEAD])
            first = head[:, 0:HALF]
            second = head[:, HALF:HEAD]

            rotated = nl.ndarray((P, HEAD), dtype=out.dtype, buffer=nl.sbuf)
            first_cos = nl.ndarray((P, HALF), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=first_cos, data1=first, data2=cos_tile, op=nl.multiply)
            second_sin = nl.ndarray((P, HALF), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=second_sin, data1=second, data2=sin_tile, op=nl.multiply)
            nisa.tensor_tensor(
                dst=rotated[:, 0:HALF], data1=first_cos, data2=second_sin, op=nl.subtract
            )
            second_cos = nl.ndarray((P, HALF), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=second_cos, data1=second, data2=cos_tile, op=nl.multiply)
            first_sin = nl.ndarray((P, HALF), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=first_sin, data1=first, data2=sin_tile, op=nl.multiply)
            nisa.tensor_tensor(
                dst=rotated[:, HALF:HEAD], data1=second_cos, data2=first_sin, op=nl.add
            )
            nisa.dma_copy(dst=out[i * P : (i + 1) * P, h * HEAD : (h + 1) * HEAD], src=rotated)

    return out
