"""Kernel TLS: whether this machine has it, and whether a connection uses it.

OpenSSL turns it on after a handshake by itself, where it is allowed to (`ENABLE_KTLS`) and has the
socket. From then on the kernel encrypts what is written to the socket: log files leave by sendfile,
as without TLS.
"""

import socket
import ssl
import sys
from functools import lru_cache
from typing import Final

ENABLE_KTLS: Final = 8
"""OpenSSL's SSL_OP_ENABLE_KTLS; Python names it since 3.12."""
_TCP_ULP: Final = 31
_SOL_TLS: Final = 282
_TLS_TX: Final = 1
_NO_CIPHER: Final = b"\0\0"


@lru_cache
def is_available() -> bool:
    """Whether the kernel has it, and OpenSSL knows about it."""
    if sys.platform != "linux" or ssl.OPENSSL_VERSION_INFO < (3,):
        return False
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as listening,
            socket.create_connection(listening.getsockname()) as connected,
        ):
            connected.setsockopt(socket.IPPROTO_TCP, _TCP_ULP, b"tls")
    except OSError:
        return False
    return True


def encrypts(sock: socket.socket) -> bool:
    """Whether the kernel encrypts what is written to a socket, its handshake being done."""
    try:
        told = sock.getsockopt(_SOL_TLS, _TLS_TX, 4)
    except OSError:
        return False
    return told[2:4] != _NO_CIPHER
