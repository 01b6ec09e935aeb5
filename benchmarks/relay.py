"""The floor over stdio: relay lines between one client and N upstreams, and do nothing else.

`python relay.py COUNT COMMAND …` starts the command COUNT times and serves its tools as `s0__NAME` and so on. It takes
every frame to be well-formed and in the usual spelling: no parsing, ids, filters, limits, deadlines or health checks.
"""

import asyncio
import os
import sys
from collections.abc import Callable

import uvloop

START = b'{"jsonrpc":"2.0","id":'
INFO = b'"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"%bInfo":{"name":"relay","version":"1"}'
INITIALIZE = START + b'"i","method":"initialize","params":{%b}}\n' % (INFO % b"client")
LIST = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n' + START + b'"l","method":"tools/list"}\n'


def each_line(fd: int, take: Callable[[bytes], None]) -> None:
    """Call back for every line that arrives."""
    pieces: list[bytes] = []

    def ready() -> None:
        data = os.read(fd, 1 << 16)
        if not data:
            sys.exit()
        *lines, rest = data.split(b"\n")
        if lines and pieces:
            lines[0] = b"".join([*pieces, lines[0]])
            pieces.clear()
        for line in lines:
            take(line + b"\n")
        if rest:
            pieces.append(rest)

    asyncio.get_running_loop().add_reader(fd, ready)


class Pipe:
    """Writes what came in one turn of the loop at once."""

    def __init__(self, fd: int) -> None:
        self.fd, self.lines, self.loop = fd, list[bytes](), asyncio.get_running_loop()

    def send(self, line: bytes) -> None:
        if not self.lines:
            self.loop.call_soon(self.flush)
        self.lines.append(line)

    def flush(self) -> None:
        view = memoryview(b"".join(self.lines))
        self.lines.clear()
        while view:
            view = view[os.write(self.fd, view) :]


async def main(count: int, command: list[str]) -> None:
    client, upstreams, listings, waiting = Pipe(1), list[Pipe](), dict[int, bytes](), list[bytes]()

    def answer_listing() -> None:
        while waiting and len(listings) == count:
            array = b",".join([listings[number] for number in range(count)])
            client.send(START + b'%b,"result":{"tools":[%b]}}\n' % (waiting.pop(), array))

    def from_client(line: bytes) -> None:
        if b'"tools/call"' in line[:64]:
            before, _, rest = line.partition(b'"name":"s')
            number, _, name = rest.partition(b"__")
            upstreams[int(number)].send(before + b'"name":"' + name)
        elif b'"tools/list"' in line[:64]:
            waiting.append(line.partition(b'"id":')[2].partition(b",")[0])
            answer_listing()
        elif b'"initialize"' in line[:64]:
            client.send(START + b'%b,"result":{%b}}\n' % (line[22:].partition(b",")[0], INFO % b"server"))

    def from_upstream(number: int, line: bytes) -> None:
        if line.startswith(START + b'"i"'):
            upstreams[number].send(LIST)
        elif line.startswith(START + b'"l"'):
            items = line[line.index(b"[") + 1 : line.rindex(b"]")]
            listings[number] = items.replace(b'{"name":"', b'{"name":"s%d__' % number)
            answer_listing()
        else:
            client.send(line)

    each_line(0, from_client)
    for number in range(count):
        (theirs_in, stdin), (stdout, theirs_out) = os.pipe(), os.pipe()  # their ends stay open here: who cares
        files = [(os.POSIX_SPAWN_DUP2, theirs_in, 0), (os.POSIX_SPAWN_DUP2, theirs_out, 1)]
        os.posix_spawn(command[0], command, os.environ, file_actions=files)
        upstreams.append(Pipe(stdin))
        each_line(stdout, lambda line, number=number: from_upstream(number, line))
        upstreams[number].send(INITIALIZE)
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), sys.argv[2:]))
