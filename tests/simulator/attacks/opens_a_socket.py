# expect: sandbox line=13 socket
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    import socket

    socket.create_connection(('127.0.0.1', 80))
    nl.store(out, tile)
    return out
