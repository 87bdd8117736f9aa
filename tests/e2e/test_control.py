# SPDX-License-Identifier: MIT
"""Whoever controls a guest, sends nonsense, or does not read, never harms it: the control socket, a console that
nobody reads, migrations that end in an unusual way.
"""
import json
import os
import shlex
import signal
import socket
import subprocess
import time

from harness import (BINARY, Control, Process, check, finish, lasting, main, migrate, migrate_well, path, receive,
                     run, wait_until)
from relay import CLOSE, PASS, Relay

STATS_GPA = 0x100000
STATS_MAGIC = b"PFSTATS1"


def read_at(places, gpa):
    """8 bytes of guest RAM, through the memfd; places: what x-memory-map said."""
    region = next(r for r in places["regions"] if r["gpa"] <= gpa < r["gpa"] + r["bytes"])
    with open(f"/proc/{places['pid']}/fd/{region['fd']}", "rb") as memory:
        memory.seek(gpa - region["gpa"])
        return memory.read(8)


class Unread:
    """`pageferry run` whose stdout is a full pipe that nobody reads."""

    def __init__(self, append):
        self.control = path(f"unread{time.monotonic_ns()}.sock")
        self.out, write_end = os.pipe()
        os.set_blocking(write_end, False)
        try:
            while True:
                os.write(write_end, b"." * 4096)
        except BlockingIOError:
            os.set_blocking(write_end, True)
        self.process = subprocess.Popen([BINARY, "run", "--backing", "memfd", "--append", append, "--control",
                                         self.control],
                                        stdin=subprocess.DEVNULL, stdout=write_end, stderr=subprocess.DEVNULL)
        os.close(write_end)
        places = Control(self.control).command("x-memory-map")
        wait_until(lambda: read_at(places, STATS_GPA) == STATS_MAGIC, "the workload to begin")

    def end(self):
        self.process.kill()
        self.process.wait()
        os.close(self.out)


def test_control_path():
    source, control = run("idle")
    mode = os.stat(control).st_mode & 0o777
    check(mode == 0o600, f"the control socket's mode is {mode:o}")
    second = Process("run", "--control", control)
    second.expect_exit(1)
    check(b"in use" in second.err and second.err.count(b"\n") == 1, f"{second.err}")
    check(Control(control).status() == "running", "the first was disturbed")
    source.kill()
    check(os.path.exists(control), "a killed process leaves its socket file")
    again = Process("run", "--append", "idle", "--control", control)
    check(Control(control).status() == "running", "a dead socket was not replaced")
    again.popen.send_signal(signal.SIGTERM)
    again.expect_exit(128 + signal.SIGTERM)
    check(not os.path.exists(control), "the socket file is left behind")


def test_receivers_stay_at_home():
    """Loopback unless an address is named; no socket file is left."""
    link = f"unix:{path('link')}"
    for listen, shown in (("tcp:0", "tcp:127.0.0.1:"), ("tcp::0", "tcp:127.0.0.1:"), (link, link)):
        target, control, uri = receive(listen)
        check(uri.startswith(shown), f"{listen} listens on {uri}")
        check(Control(control).status() == "inmigrate", "the control socket is there from the start")
        Control(control).refused("cont")
        Control(control).refused("migrate", uri=uri)
        Control(control).command("quit")
        target.expect_exit(0)
    check(not os.path.exists(path("link")), "the socket file is left behind")


def test_clients():
    source, control = run("idle", options=("--backing", "memfd"))
    clients = [Control(control) for _ in range(6)]
    clients[0].command("stop")
    for client in clients[1:]:
        check(client.status() == "paused", "another client sees another state")
        check([e["event"] for e in client.events] == ["STOP"], f"{client.events}")
    clients[1].command("cont")
    names = {c["name"] for c in clients[0].command("query-commands")}
    for name in ("query-status", "stop", "cont", "quit", "migrate", "migrate_cancel", "query-migrate",
                 "query-version", "query-commands", "x-registers", "getfd", "closefd", "qmp_capabilities"):
        check(name in names, f"query-commands does not name {name}")
    clients[0].refused("closefd", fdname="nosuch")
    clients[0].refused("migrate", uri="fd:nosuch")
    clients[0].refused("migrate")
    clients[0].refused("migrate-set-parameters", nosuch=1)
    clients[0].refused("x-registers", cpu=-1)
    check(clients[0].try_command("nosuch")["error"]["class"] == "CommandNotFound", "nosuch")
    places = clients[0].command("x-memory-map")
    check(places["pid"] == source.pid and read_at(places, STATS_GPA) == STATS_MAGIC, f"{places}")
    region = places["regions"][0]
    with open(f"/proc/{source.pid}/mem", "rb") as memory:
        memory.seek(region["hva"] + STATS_GPA - region["gpa"])
        check(memory.read(8) == STATS_MAGIC, "no statistics page at its hva")


def test_client_that_never_reads():
    _, control = run("idle")
    other = Control(control)
    silent = socket.socket(socket.AF_UNIX)
    silent.connect(control)
    silent.setblocking(False)
    text = b'{"execute":"qmp_capabilities"}' + b'{"execute":"query-commands"}' * 200000
    while text:
        try:
            text = text[silent.send(text[:65536], socket.MSG_NOSIGNAL):]
        except BlockingIOError:
            check(other.status() == "running", "it holds up another client")
        except OSError:
            break
    check(text, "it is not dropped")
    check(other.status() == "running", "it holds up another client")


def test_unread_console():
    source = Unread("memcheck")
    try:
        here = Control(source.control)
        for _ in range(5):
            here.command("stop")
            here.command("cont")
        check(here.status() == "running", here.status())
        target, _, uri = receive()
        migrate_well(source.control, uri)
        check(here.status() == "postmigrate", here.status())
        finish(target)
    finally:
        source.end()


def test_unread_console_at_the_end():
    for end, code in ((lambda s: s.process.send_signal(signal.SIGTERM), 128 + signal.SIGTERM),
                      (lambda s: Control(s.control).command("quit"), 0)):
        source = Unread("memcheck")
        try:
            end(source)
            got = source.process.wait(20)
            check(got == code, f"status {got}, not {code}")
        except subprocess.TimeoutExpired:
            check(False, "a console that nobody reads keeps the process from ending")
        finally:
            source.end()


def fail_late(uri, target):
    def watch(name, _):
        if name == "STATE":
            target.kill()
            return CLOSE
        return PASS
    return Relay(uri, watch)


def test_failed_migration_of_a_paused_guest():
    """It was paused, it stays paused, and can be continued or migrated."""
    source, control = run("memcheck")
    here = Control(control)
    here.command("stop")
    for then in ("cont", "migrate"):
        target, _, uri = receive()
        relay = fail_late(uri, target)
        code, result, err = migrate(control, relay.uri)
        relay.close()
        check(code == 1, f"exit {code}: {result} {err}")
        check(here.status() == "paused", f"after the failure it is {here.status()}")
        if then == "cont":
            here.command("cont")
            check(here.status() == "running", here.status())
            here.command("stop")
    target, target_control, uri = receive()
    migrate_well(control, uri)
    there = Control(target_control)
    check(there.status() == "paused", f"arrived {there.status()}")
    there.command("cont")
    finish(target)
    source.kill()


def test_arrived_paused_then_failed():
    """A guest that nobody here ever paused, but that came paused, does not start by itself."""
    _, control = run("memcheck")
    Control(control).command("stop")
    middle, middle_control, uri = receive()
    migrate_well(control, uri)
    target, _, uri = receive()
    relay = fail_late(uri, target)
    code, result, err = migrate(middle_control, relay.uri)
    relay.close()
    check(code == 1, f"exit {code}: {result} {err}")
    here = Control(middle_control)
    check(here.status() == "paused", f"after the failure it is {here.status()}")
    here.command("cont")
    finish(middle)


def test_exec_lives_on():
    """The command may be the destination itself: it is not ended once the guest is there."""
    source, control = run(f"memcheck set=8M seconds={lasting(6)}")
    log = path("remote.log")
    migrate_well(control, f"exec:exec {shlex.quote(BINARY)} receive --stdio --serial file:{shlex.quote(log)}")

    def verdict():
        with open(log, "rb") as file:
            return b"memcheck: OK" in file.read()
    wait_until(verdict, "the verdict of the guest behind exec:", 30)

    def children():
        mine = []
        for task in os.listdir(f"/proc/{source.pid}/task"):
            with open(f"/proc/{source.pid}/task/{task}/children", encoding="ascii") as file:
                mine += file.read().split()
        return mine
    wait_until(lambda: not children(), "the command's end to be taken note of", 10)
    Control(control).command("quit")
    source.expect_exit(0)


def test_interrupt_cancels():
    _, control = run("memcheck")
    target, _, uri = receive()
    command = subprocess.Popen([BINARY, "migrate", "--control", control, "--json", "--max-bandwidth", "1M", uri],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    here = Control(control)
    wait_until(lambda: here.command("query-migrate").get("ram", {}).get("transferred", 0) > 100000,
               "the migration to get going")
    command.send_signal(signal.SIGINT)
    out, err = command.communicate(timeout=30)
    check(command.returncode == 1 and json.loads(out)["status"] == "cancelled", f"{command.returncode} {out} {err}")
    check(here.status() == "running", here.status())
    target.expect_exit(1)


if __name__ == "__main__":
    main(test_control_path, test_receivers_stay_at_home, test_clients, test_client_that_never_reads,
         test_unread_console, test_unread_console_at_the_end, test_failed_migration_of_a_paused_guest,
         test_arrived_paused_then_failed, test_exec_lives_on, test_interrupt_cancels)
