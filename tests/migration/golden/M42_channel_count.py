import nki
import nki.collectives as collectives
import nki.isa as nisa
import nki.language as nl


# accelopt: x=f32[128,512]
@nki.jit
def kernel(x, group=None, channel=0):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    if group:
        collectives.collective_permute_implicit_current_processing_rank_id(
            iteration_id=0,
            channel_id=channel,
            replica_group=group,
        )
        collectives.collective_permute_implicit(
            srcs_by_channel=[[x], [x]],
            dsts_by_channel=[[out], [out]],
            replica_group=group,
            channel_ids=[0, 1],
        )
    nisa.dma_copy(dst=out, src=x)
    return out
