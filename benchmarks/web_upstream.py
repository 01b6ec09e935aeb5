"""The light raw MCP server over Streamable HTTP, in either era, on kept connections.

`python -S -E web_upstream.py TOOLS ERA` prints its port. It reads bodies by their Content-Length and answers with JSON.
"""

import select
import socket
import sys

from upstream import Server  # its own directory is where this script finds modules

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%bContent-Length: %d\r\n\r\n"
SESSION_ID = b"Mcp-Session-Id: bench\r\n"
ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
NOT_ALLOWED = b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n"


class Connection:
    """One client, which sends its next request after the answer to the one before."""

    def __init__(self, sock: socket.socket, server: Server) -> None:
        self.socket = sock
        self.server = server
        self.data = b""

    def ready(self) -> bool:
        """Read what is there and answer what is whole; false at the end."""
        try:
            new = self.socket.recv(1 << 16)
        except OSError:
            return False
        self.data += new
        while (request := self.whole()) is not None:
            self.socket.sendall(self.answer(*request))
        return bool(new)

    def whole(self) -> tuple[bytes, bytes] | None:
        end = self.data.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = self.data[:end].lower()
        at = head.find(b"content-length:")
        stop = end + 4 + (int(head[at + 15 :].partition(b"\r")[0]) if at >= 0 else 0)
        if len(self.data) < stop:
            return None
        body, self.data = self.data[end + 4 : stop], self.data[stop:]
        return head, body

    def answer(self, head: bytes, body: bytes) -> bytes:
        if not head.startswith(b"post"):
            return NOT_ALLOWED
        payload = self.server.answer(body)
        if not payload:
            return ACCEPTED
        return HEAD % (SESSION_ID if b'"initialize"' in body[:80] else b"", len(payload)) + payload


def main() -> None:
    server = Server(int(sys.argv[1]), sys.argv[2])
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(listening.getsockname()[1], flush=True)
    poll = select.epoll()
    poll.register(listening.fileno(), select.EPOLLIN)
    connections: dict[int, Connection] = {}
    while True:
        for fd, _ in poll.poll():
            if fd == listening.fileno():
                sock = listening.accept()[0]
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connections[sock.fileno()] = Connection(sock, server)
                poll.register(sock.fileno(), select.EPOLLIN)
            elif not connections[fd].ready():
                poll.unregister(fd)
                connections.pop(fd).socket.close()


if __name__ == "__main__":
    main()
