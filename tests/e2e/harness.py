# SPDX-License-Identifier: MIT
"""What every end-to-end test needs: pageferry processes, their control sockets, their output.

A test is a script: `main(test_function, …)` runs the functions in order, prints what it does, exits 0, 1 or 77 (skip).
"""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

BINARY = os.environ.get("PAGEFERRY", "pageferry")
WAIT_S = 60
# A percentage, less than 100 where a machine is slow: fewer repetitions, smaller guests, longer lives.
EFFORT = int(os.environ.get("PAGEFERRY_TEST_EFFORT", "100"))


class Failure(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Failure(text)


def wait_until(condition, what, seconds=WAIT_S):
    """Polls until condition() is true and returns its value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(f"waited {seconds} s for {what}")
        time.sleep(0.01)


def times(count):
    """How often to repeat what is done `count` times on an ordinary machine."""
    return max(2, count * EFFORT // 100)


def lasting(seconds):
    """How long a guest must live that lives for `seconds` on an ordinary machine."""
    return seconds * 2 if EFFORT < 100 else seconds


class Process:
    """A pageferry process whose output is collected while it runs."""

    def __init__(self, *arguments, stdin=subprocess.PIPE, pass_fds=()):
        self.arguments = list(arguments)
        self.popen = subprocess.Popen([BINARY, *arguments], stdin=stdin, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, pass_fds=pass_fds)
        self.out, self.err = bytearray(), bytearray()
        self.readers = [threading.Thread(target=self._collect, args=pair, daemon=True)
                        for pair in ((self.popen.stdout, self.out), (self.popen.stderr, self.err))]
        for reader in self.readers:
            reader.start()
        everything.append(self)

    @staticmethod
    def _collect(pipe, into):
        while True:
            data = pipe.read1(65536)
            if not data:
                return
            into += data

    @property
    def pid(self):
        return self.popen.pid

    def alive(self):
        return self.popen.poll() is None

    def wait_output(self, text, seconds=WAIT_S):
        def there():
            if text.encode() in self.out:
                return True
            if not self.alive():
                raise Failure(f"{self} ended before it printed {text!r}")
            return False
        wait_until(there, f"{text!r} from {self}", seconds)

    def wait_error(self, pattern, seconds=WAIT_S):
        def there():
            return re.search(pattern, self.err.decode(errors="replace"))
        return wait_until(there, f"/{pattern}/ on stderr of {self}", seconds)

    def send(self, text):
        self.popen.stdin.write(text.encode())
        self.popen.stdin.flush()

    def wait(self, seconds=WAIT_S):
        """The exit status, once all output was read."""
        try:
            code = self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self} still runs after {seconds} s") from None
        for reader in self.readers:
            reader.join(5)
        return code

    def expect_exit(self, code, seconds=WAIT_S):
        got = self.wait(seconds)
        check(got == code, f"{self} exited with {got}, not {code}")

    def kill(self):
        if self.alive():
            self.popen.send_signal(signal.SIGKILL)
        self.popen.wait()

    def __str__(self):
        return f"pageferry {self.arguments[0]} (pid {self.pid})"

    def report(self):
        return (f"--- {self}: {' '.join(self.arguments)}\n--- status {self.popen.poll()}\n"
                f"--- stdout (end):\n{self.out[-1500:].decode(errors='replace')}\n"
                f"--- stderr (end):\n{self.err[-1500:].decode(errors='replace')}")


class Control:
    """A QMP client."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(WAIT_S)

        def connect():
            try:
                self.socket.connect(path)
                return True
            except OSError:
                return False
        wait_until(connect, f"a control socket at {path}", 10)
        self.file = self.socket.makefile("rwb")
        self.events = []
        check("QMP" in json.loads(self.file.readline()), "no QMP greeting")
        self.command("qmp_capabilities")

    def try_command(self, name, **arguments):
        message = {"execute": name}
        if arguments:
            message["arguments"] = arguments
        self.file.write(json.dumps(message).encode() + b"\n")
        self.file.flush()
        while True:
            line = self.file.readline()
            check(line, f"the control socket closed during {name}")
            reply = json.loads(line)
            if "event" in reply:
                self.events.append(reply)
                continue
            return reply

    def command(self, name, **arguments):
        reply = self.try_command(name, **arguments)
        check("return" in reply, f"{name}: {reply}")
        return reply["return"]

    def refused(self, name, **arguments):
        reply = self.try_command(name, **arguments)
        check("error" in reply, f"{name} was not refused: {reply}")
        return reply["error"]["desc"]

    def status(self):
        return self.command("query-status")["status"]

    def close(self):
        self.file.close()
        self.socket.close()


everything = []
directory = None


def path(name):
    return os.path.join(directory, name)


_names = iter(range(1000000))


def run(append, memory="64M", cpus=1, options=(), wait="ready"):
    """Starts `pageferry run`, waits until its guest says so; (process, control path)."""
    if append.startswith("memcheck") and EFFORT < 100:
        append += ("" if "set=" in append else " set=8M") + ("" if "rate=" in append else " rate=2000")
    control = path(f"run{next(_names)}.sock")
    process = Process("run", "-m", memory, "-c", str(cpus), "--append", append,
                      "--control", control, *options)
    if wait:
        process.wait_output(wait)
    return process, control


def receive(listen="tcp:127.0.0.1:0", options=()):
    """Starts `pageferry receive`; (process, control path, URI to migrate to)."""
    control = path(f"receive{next(_names)}.sock")
    process = Process("receive", "--listen", listen, "--control", control, *options)
    match = process.wait_error(r"listening on (\S+)")
    return process, control, match.group(1)


def migrate(control, uri, *options, seconds=WAIT_S * 2):
    """Runs `pageferry migrate --json`; (exit status, JSON object or None, stderr)."""
    done = subprocess.run([BINARY, "migrate", "--control", control, "--json", *options, uri],
                          capture_output=True, timeout=seconds, check=False)
    try:
        result = json.loads(done.stdout)
    except ValueError:
        result = None
    return done.returncode, result, done.stderr.decode(errors="replace")


def migrate_well(control, uri, *options, **more):
    code, result, err = migrate(control, uri, *options, **more)
    check(code == 0 and result and result["status"] == "completed",
          f"migrate exited with {code}: {result} {err}")
    return result


def finish(process, code=0, seconds=WAIT_S * 2):
    """Asks the guest to finish and expects its verdict."""
    process.send("q")
    process.expect_exit(code, seconds)


def threads_of(pid):
    return len(os.listdir(f"/proc/{pid}/task"))


def fds_of(pid):
    """What the process's descriptors are; one that is closed while we look is not there."""
    found = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            pass
    return sorted(found)


def need_kvm():
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        print("SKIP: no access to /dev/kvm on this host")
        sys.exit(77)


def main(*tests, kvm=True):
    global directory
    if kvm:
        need_kvm()
    failed = 0
    for test in tests:
        directory = tempfile.mkdtemp(prefix="pageferry-test.")
        begin = time.monotonic()
        print(f"{test.__name__} …", flush=True)
        try:
            test()
            print(f"{test.__name__} ok, {time.monotonic() - begin:.1f} s", flush=True)
        except (Failure, OSError, subprocess.TimeoutExpired) as error:
            failed += 1
            print(f"{test.__name__} FAILED: {error}", flush=True)
            for process in everything[-6:]:
                print(process.report(), flush=True)
        for process in everything:
            process.kill()
        everything.clear()
        shutil.rmtree(directory, ignore_errors=True)
    sys.exit(1 if failed else 0)
