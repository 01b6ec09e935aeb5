"""The helper process that is the parent of every upstream, so that none outlives the gateway.

It runs as `python -I -S guard.py TOKEN` with a socket to the gateway as descriptor 0; it imports nothing of ours.
Requests: spawn (with three descriptors), note, signal, finish. Reports: started, failed, exited, noted, gone.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import sys
import time

TYPE_CHECKING = False  # The typing module would be a tenth of this process.
if TYPE_CHECKING:
    import ctypes
    from collections.abc import Callable, Collection, Iterator

MARKER = b"KIMI_GATEWAY_CHILD"
SOCKET = 0
FIRST_PAUSE = 0.002
GIVE_UP = 10.0  # Seconds after which what even SIGKILL does not end is left to init.
PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def pack(*fields: bytes) -> bytes:
    """One message: its length, then its fields with NUL between, which no argument, variable or path holds."""
    body = b"\0".join(fields)
    return len(body).to_bytes(4, "big") + body


def unpack(buffer: bytearray) -> Iterator[list[bytes]]:
    """Take the complete messages off the front of a buffer."""
    while len(buffer) >= 4 and len(buffer) >= (end := 4 + int.from_bytes(buffer[:4], "big")):
        fields = bytes(buffer[4:end]).split(b"\0")
        del buffer[:end]
        yield fields


class Process:
    """A line of the process table."""

    __slots__ = ("group", "parent", "pid", "start", "zombie")

    def __init__(self, pid: int, stat: bytes) -> None:
        # The name before the last ")" may hold anything, blanks and parentheses too.
        words = stat.rpartition(b")")[2].split()
        self.pid = pid
        self.zombie = words[0] in b"ZX"
        self.parent, self.group = int(words[1]), int(words[2])
        self.start = int(words[19])


def _read(path: str) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return b"".join(iter(lambda: os.read(file, 65536), b""))
    except OSError:
        return b""
    finally:
        os.close(file)


def look_up(pid: int) -> Process | None:
    """What the process table says of one process."""
    stat = _read(f"/proc/{pid}/stat")
    return Process(pid, stat) if stat else None


def table() -> dict[int, Process]:
    """All processes; empty where there is no /proc."""
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - pathlib would cost this process a megabyte.
    except OSError:
        return {}
    found = (look_up(int(name)) for name in names if name.isdecimal())
    return {process.pid: process for process in found if process is not None}


def marks(pid: int) -> list[bytes]:
    """Whose child a process says it is: one mark per gateway above it."""
    for variable in _read(f"/proc/{pid}/environ").split(b"\0"):
        if variable.startswith(MARKER + b"="):
            return variable.partition(b"=")[2].split()
    return []


def below(root: int, processes: dict[int, Process]) -> list[Process]:
    """All descendants of a process."""
    children: dict[int, list[Process]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = [root]
    while waiting:
        young = children.pop(waiting.pop(), [])
        found += young
        waiting += [process.pid for process in young]
    return found


def kill(process: Process) -> bool:
    """SIGKILL this very process, not a later one of the same number; say whether it may still be there."""
    now = look_up(process.pid)
    if now is None or now.zombie or now.start != process.start:
        return False
    try:
        os.kill(process.pid, signal.SIGKILL)
    except OSError:  # Gone, or another user's by now.
        return False
    return True


class Upstream:
    """A child of the guard. Its zombie is kept until it is finished: so its group's number stays its own."""

    def __init__(self, key: bytes, pid: int, verdict: int, command: bytes, cwd: bytes) -> None:
        self.key = key
        self.pid = pid
        self.verdict: int | None = verdict  # The pipe that tells how exec went.
        self.paths = {b"command": command, b"cwd": cwd}
        self.exited = False
        self.finishing = False
        self.noted: set[tuple[int, int]] = set()

    def signal(self, number: int) -> None:
        """Signal the whole group; also the child itself, which may not have made its group yet."""
        for send in (os.killpg, os.kill):
            try:
                send(self.pid, number)
            except OSError:
                continue
            break

    def ended(self) -> int | None:
        """The exit code, negative for a signal, once; None while it runs."""
        if not hasattr(os, "waitid"):  # macOS: no zombie can be kept, so the group goes now.
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if not pid:
                return None
            self.signal(signal.SIGKILL)
            return os.waitstatus_to_exitcode(status)
        state = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if state is None:
            return None
        return state.si_status if state.si_code == os.CLD_EXITED else -state.si_status


def owners(
    me: int,
    processes: dict[int, Process],
    upstreams: Collection[Upstream],
    mark_of: Callable[[int], bytes | None],
) -> dict[int, bytes | None]:
    """Which upstream each descendant of the guard belongs to; None where nothing tells."""
    leaders = {upstream.pid: upstream.key for upstream in upstreams}
    noted = {one: upstream.key for upstream in upstreams for one in upstream.noted}
    found: dict[int, bytes | None] = {me: None}
    for process in below(me, processes):  # Parents come before their children.
        found[process.pid] = (
            leaders.get(process.pid)
            or found.get(process.parent)
            or leaders.get(process.group)
            or noted.get((process.pid, process.start))
            or mark_of(process.pid)
        )
    del found[me]
    return found


def execute(command: list[bytes], env: dict[bytes, bytes]) -> None:
    """Replace this process by a command, found by its own PATH; it returns only by raising."""
    if b"/" in command[0]:
        os.execve(command[0], command, env)
    refusal = OSError(errno.ENOENT, "")
    for folder in env.get(b"PATH", os.defpath.encode()).split(b":"):
        try:
            os.execve(os.path.join(folder, command[0]), command, env)  # noqa: PTH118 - see above.
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            refusal = error
    raise refusal


class Helper:
    """The guard's own loop."""

    def __init__(self, token: bytes) -> None:
        self.token = token
        self.socket = socket.socket(fileno=SOCKET)
        self.buffer = bytearray()
        self.received: list[int] = []
        self.upstreams: dict[bytes, Upstream] = {}
        self.verdicts: dict[int, Upstream] = {}
        self.poll = select.poll()
        self.poll.register(SOCKET, select.POLLIN)
        self.due: float | None = None  # When to look at the process table again.
        self.pause = FIRST_PAUSE
        self.libc = self._libc()
        self.prctl(PR_SET_CHILD_SUBREAPER, 1)
        self.prctl(PR_SET_NAME, b"kimi-guard")
        self.leave_terminal()
        self.wake = self._catch_signals()

    def _libc(self) -> ctypes.CDLL:
        import ctypes  # The gateway imports this module too, and has no use for it.

        return ctypes.CDLL(None)

    def prctl(self, option: int, value: int | bytes) -> None:
        """Set something of this process where the system has it."""
        if sys.platform == "linux":
            self.libc.prctl(option, value, 0, 0, 0)

    def leave_terminal(self) -> None:
        """Have no controlling terminal, nor any child: one that asks for a password there would be stopped for ever.

        A session of our own would do that too, but Linux may schedule each session as a group of its own
        (`sched_autogroup_enabled`), and every frame that goes from one to another then takes some microseconds longer.
        """
        import fcntl
        import termios

        try:
            terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
        except OSError:
            return
        with contextlib.suppress(OSError):
            fcntl.ioctl(terminal, termios.TIOCNOTTY)
        os.close(terminal)

    def _catch_signals(self) -> int:
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN if number in IGNORED else signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        wake, written = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(written, False)
        signal.set_wakeup_fd(written, warn_on_full_buffer=False)
        self.poll.register(wake, select.POLLIN)
        return wake

    def run(self) -> None:
        """Serve until the gateway is gone."""
        while True:
            timeout = None if self.due is None else max(0.0, self.due - time.monotonic()) * 1000
            for file, _ in self.poll.poll(timeout):
                if file == self.wake:
                    os.read(self.wake, 4096)
                    self.look_for_exits()
                elif file in self.verdicts:
                    self.judge(self.verdicts[file])
                elif file == SOCKET and not self.receive():
                    return
            if self.due is not None and time.monotonic() >= self.due:
                self.sweep()

    def report(self, *fields: bytes) -> None:
        """Tell the gateway; if it is gone, the next read will say so."""
        try:
            self.socket.sendall(pack(*fields))
        except OSError:
            return

    def receive(self) -> bool:
        """Read requests; False at the end of the gateway."""
        try:
            data, files, flags, _ = socket.recv_fds(self.socket, 65536, 16)
        except OSError:
            return False
        self.received += files
        self.buffer += data
        if not data or flags & socket.MSG_CTRUNC:  # A lost descriptor would shift all that follow.
            return False
        seen = False
        for kind, key, *rest in unpack(self.buffer):
            if kind == b"spawn":
                self.spawn(key, rest)
            elif kind == b"note":
                seen = seen or self.note()  # One look serves a whole batch: many are often ended at once.
                self.report(b"noted", key)
            elif kind == b"signal" and key in self.upstreams:
                self.upstreams[key].signal(int(rest[0]))
            elif kind == b"finish" and key in self.upstreams:
                self.upstreams[key].finishing = True
                self.due, self.pause = 0.0, FIRST_PAUSE
            elif kind == b"finish":
                self.report(b"gone", key)
        return True

    def spawn(self, key: bytes, fields: list[bytes]) -> None:
        """Fork; whether exec succeeds is heard later, so that a slow disk delays nobody else."""
        files, self.received = self.received[:3], self.received[3:]
        cwd, count, *rest = fields
        command, variables = rest[: int(count)], rest[int(count) :]
        verdict = None
        try:
            verdict, told = os.pipe()
            files.append(told)
            pid = os.fork()
        except OSError as error:
            if verdict is not None:
                os.close(verdict)
            self.report(b"failed", key, b"%d" % (error.errno or errno.EAGAIN), command[0])
            return
        else:
            if pid == 0:
                self.become(key, command, variables, cwd, files)
        finally:
            for file in files:
                os.close(file)
        self.upstreams[key] = self.verdicts[verdict] = Upstream(key, pid, verdict, command[0], cwd)
        self.poll.register(verdict, select.POLLIN)

    def become(self, key: bytes, command: list[bytes], variables: list[bytes], cwd: bytes, files: list[int]) -> None:
        """In the child: from fork to exec. What goes wrong is written to the last of the files."""
        step = b"command"
        try:
            os.setpgid(0, 0)
            for target, file in enumerate(files):
                os.dup2(file, target, inheritable=target < 3)
            os.closerange(4, os.sysconf("SC_OPEN_MAX"))
            self.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # Should the guard itself be killed.
            for number in (*IGNORED, signal.SIGPIPE, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            env = {name: value for name, _, value in (one.partition(b"=") for one in variables)}
            env[MARKER] = b" ".join((*os.environb.get(MARKER, b"").split(), self.token + b"." + key))
            step = b"cwd"
            os.chdir(cwd)
            step = b"command"
            execute(command, env)
        except OSError as error:
            os.write(3, b"%d %b" % (error.errno or errno.EIO, step))
        except BaseException:
            os.write(3, b"%d %b" % (errno.EINVAL, step))
        finally:
            os._exit(127)

    def judge(self, upstream: Upstream) -> None:
        """Hear how exec went: silence is success."""
        verdict = upstream.verdict
        if verdict is None:
            return
        upstream.verdict = None
        del self.verdicts[verdict]
        self.poll.unregister(verdict)
        told = os.read(verdict, 100)
        os.close(verdict)
        if told:
            code, step = told.split()
            os.waitpid(upstream.pid, 0)
            del self.upstreams[upstream.key]
            self.report(b"failed", upstream.key, code, upstream.paths[step])
            return
        process = look_up(upstream.pid)
        start = process.start if process else 0
        self.report(b"started", upstream.key, b"%d" % upstream.pid, b"%d" % start)

    def look_for_exits(self) -> None:
        """Report children that ended; orphans that came to us and ended are reaped at leisure."""
        for upstream in list(self.upstreams.values()):
            if upstream.exited or (code := upstream.ended()) is None:
                continue
            upstream.exited = True
            self.judge(upstream)
            if upstream.key in self.upstreams:
                self.report(b"exited", upstream.key, b"%d" % code)
        urgent = any(upstream.finishing for upstream in self.upstreams.values())
        soon = 0.0 if urgent else time.monotonic() + 1.0
        self.due = soon if self.due is None else min(self.due, soon)

    def mark_of(self, pid: int) -> bytes | None:
        """The key of our child that a process carries in its environment."""
        for mark in marks(pid):
            token, _, key = mark.partition(b".")
            if token == self.token:
                return key
        return None

    def note(self) -> bool:
        """Remember who descends from whom while it can be seen: an orphan tells only by its environment."""
        processes = table()
        belongs = owners(os.getpid(), processes, self.upstreams.values(), self.mark_of)
        for pid, key in belongs.items():
            if key in self.upstreams:
                self.upstreams[key].noted.add((pid, processes[pid].start))
        return True

    def sweep(self) -> None:
        """Reap orphans, and end whatever belongs to children that are to be finished."""
        finishing = {key: upstream for key, upstream in self.upstreams.items() if upstream.finishing}
        alive = self.kill_families(finishing)
        for key, upstream in finishing.items():
            if upstream.exited and not alive.intersection((key, None)):
                self.bury(upstream)
        self.due = None
        if any(upstream.finishing for upstream in self.upstreams.values()):
            self.due = time.monotonic() + self.pause
            self.pause = min(self.pause * 2, 1.0)

    def kill_families(self, finishing: dict[bytes, Upstream]) -> set[bytes | None]:
        """Kill these children and all that is theirs; say of whom something may still be there."""
        me, processes = os.getpid(), table()
        belongs = owners(me, processes, self.upstreams.values(), self.mark_of)
        leaders = {upstream.pid for upstream in self.upstreams.values()}
        doomed: set[bytes | None] = {*finishing, *(set(belongs.values()) - {None} - set(self.upstreams))}
        if len(finishing) == len(self.upstreams):
            doomed.add(None)  # Orphans of unknown origin cannot be another's.
        for upstream in finishing.values():
            upstream.signal(signal.SIGKILL)
        alive: set[bytes | None] = set()
        for pid, key in belongs.items():
            process = processes[pid]
            if pid in leaders:
                continue
            if process.zombie and process.parent == me:
                os.waitpid(pid, os.WNOHANG)
            elif key in doomed and kill(process):
                alive.add(key if key in finishing else None)
        return alive

    def bury(self, upstream: Upstream) -> None:
        """Let go of a child of whom nothing is left."""
        with contextlib.suppress(ChildProcessError):
            os.waitpid(upstream.pid, os.WNOHANG)
        del self.upstreams[upstream.key]
        self.report(b"gone", upstream.key)

    def end_all(self) -> None:
        """Kill whatever descends from us, and reap until nothing is left."""
        until = time.monotonic() + GIVE_UP
        while time.monotonic() < until:
            for upstream in self.upstreams.values():
                upstream.signal(signal.SIGKILL)
            for process in below(os.getpid(), table()):
                kill(process)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    continue
            except ChildProcessError:
                return
            time.sleep(0.005)


def main() -> None:
    """Run until the gateway is gone and nothing of its children is left."""
    helper = Helper(os.fsencode(sys.argv[1]))
    try:
        helper.run()
    finally:
        helper.end_all()
    os._exit(0)  # The socket closes with the process, not before it.


if __name__ == "__main__":
    main()
