"""An MCP server without a mind: its stdin goes to a socket, and what comes from the socket goes to its stdout.

The test at the other end of the socket sees every byte the gateway sent, and says every byte the server answers.
Arguments: the path of a Unix socket, then how many bytes of noise to write to stderr for each chunk of input.
"""

import os
import socket
import sys
import threading

HIGHWAY = 256 * 1024


def copy_down(link: socket.socket) -> None:
    """What the test says, said."""
    while data := link.recv(HIGHWAY):
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]
    os._exit(0)


def main() -> None:
    link = socket.socket(socket.AF_UNIX)
    link.connect(sys.argv[1])
    noise = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    threading.Thread(target=copy_down, args=(link,), daemon=True).start()
    while data := os.read(0, HIGHWAY):
        if noise:
            sys.stderr.buffer.write(b'{"jsonrpc":"2.0","id":1,"result":"noise"}\n' * (noise // 42))
            sys.stderr.buffer.flush()
        link.sendall(data)
    link.shutdown(socket.SHUT_WR)
    os._exit(0)


main()
