"""Whether a client that sends nothing more is still there: its kernel knows, and is asked.

A socket that was closed and one whose sending half was shut down look the same from here. The
kernel of the first answers with a reset once it has forgotten the connection, a minute later.
"""

import socket
from typing import Final

ASK_AFTER_SECONDS: Final = 30


def ask_often(sock: socket.socket) -> bool:
    """Ask every half a minute instead of every two hours; False where the connection is broken."""
    if hasattr(socket, "TCP_KEEPIDLE"):
        try:
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL):
                sock.setsockopt(socket.IPPROTO_TCP, option, ASK_AFTER_SECONDS)
        except OSError:
            return False
    return True
