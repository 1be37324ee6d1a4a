"""Facts about NKI and the hardware, and the types that the other rooms exchange.

This floor imports nothing of ours and no NumPy at import time, so that the language
server starts fast and every other floor may build on it.
"""
