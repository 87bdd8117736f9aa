# SPDX-License-Identifier: MIT
"""The control socket byte by byte, its events and its view of the guest's memory."""
import array
import json
import os
import socket
import struct
import subprocess

from harness import (BINARY, Control, check, fds_of, finish, main, migrate_well, path, receive, run, wait_until)

MAGIC = struct.unpack("<Q", b"PFSTATS1")[0]
STATS_GPA = 0x100000
STATS_CPU = 64  # offset of cpu[0] in struct guest_stats: four words and a name of 32 bytes
MESSAGE = ('{"execute":"query-status", "id":{"text":"\u00e9 \\u00e9 }{ \\" \\\\", "list":[true,false,null,-1.5e3,{}]}}\n')
ID = json.loads(MESSAGE)["id"]
CAPABILITIES = b'{"execute":"qmp_capabilities"}\n'


class Wire:
    """A client that sends bytes."""

    def __init__(self, control):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        self.socket.connect(control)
        self.file = self.socket.makefile("rb")
        self.greeting = self.hear()

    def hear(self):
        line = self.file.readline()
        return json.loads(line) if line else None

    def say(self, data):
        self.socket.sendall(data)
        return self.hear()


def guest_words(here, gpa, count):
    """64-bit words of guest RAM, through the process's memory."""
    memory = here.command("x-memory-map")
    region = next(r for r in memory["regions"] if r["gpa"] <= gpa < r["gpa"] + r["bytes"])
    with open(f"/proc/{memory['pid']}/mem", "rb") as file:
        file.seek(region["hva"] + gpa - region["gpa"])
        return struct.unpack(f"<{count}Q", file.read(8 * count))


def test_wire():
    _, control = run("idle")
    wire = Wire(control)
    check(wire.greeting["QMP"]["capabilities"] == [] and "qemu" in wire.greeting["QMP"]["version"],
          f"greeting {wire.greeting}")
    refused = wire.say(MESSAGE.encode())
    check(refused["error"]["class"] == "CommandNotFound" and refused["id"] == ID, f"not negotiated: {refused}")
    check(wire.say(CAPABILITIES) == {"return": {}}, "qmp_capabilities")
    # Split anywhere, in two and in bytes.
    text = MESSAGE.encode()
    for at in range(1, len(text) - 1):
        wire.socket.sendall(text[:at])
        answer = wire.say(text[at:])
        check(answer["return"]["running"] and answer["id"] == ID, f"split at {at}: {answer}")
    for i in range(len(text) - 1):
        wire.socket.sendall(text[i:i + 1])
    check(wire.hear()["id"] == ID, "byte by byte")
    # Joined, without anything between.
    wire.socket.sendall(text.strip() * 3 + b'{"execute":"nosuch","id":4}')
    check([wire.hear()["id"] for _ in range(4)] == [ID, ID, ID, 4], "joined messages")
    # What is malformed gets an error, and the next message is understood.
    for bad in (b"hello\n", b"\x00\xff\n", b"}\n", b"17\n", b"[]\n", b"{}\n", b'{"execute":}\n', b'{"execute":[]}\n',
                b'{"execute":"query-status","arguments":[]}\n', b'{"execute":"query-status","arguments":null}\n',
                b'{"execute":"\xff"}\n', b"[" * 5000 + b"]" * 5000 + b"\n"):
        answer = wire.say(bad)
        check("error" in answer and answer["error"]["desc"], f"{bad[:40]}: {answer}")
        answer = wire.say(b'{"execute":"query-status","id":"next"}\n')
        check(answer.get("id") == "next" and "return" in answer, f"after {bad[:40]}: {answer}")
    # Without a newline, and without an end.
    flood = Wire(control)
    try:
        flood.socket.sendall(b'{"execute":"' + b"x" * (2 << 20), socket.MSG_NOSIGNAL)
    except OSError:
        pass
    try:
        answer = flood.hear()
        check("too long" in answer["error"]["desc"], f"2 MiB: {answer}")
        check(flood.hear() is None, "a flood is not ended")
    except ConnectionError:
        pass
    check(wire.say(text)["id"] == ID, "the flood harmed another client")


def test_too_many_clients():
    _, control = run("idle")
    clients = [Control(control) for _ in range(8)]
    with socket.socket(socket.AF_UNIX) as ninth:
        ninth.connect(control)
        check(ninth.recv(100) == b"", "a ninth client was let in")
    check(all(client.status() == "running" for client in clients), "a client suffered from the ninth")
    clients.pop().close()
    wait_until(lambda: Wire(control).greeting, "room for another client")


def test_arguments():
    _, control = run("idle", cpus=2)
    here = Control(control)
    for name, arguments in (
            ("fly", {}), ("", {}), ("stop", {"now": True}), ("query-status", {"x": 1}), ("x-registers", {"cpu": 2}),
            ("x-registers", {"cpu": -1}), ("x-registers", {"cpu": 1 << 32}), ("x-registers", {"cpu": "0"}),
            ("x-registers", {"cpu": 0.0}), ("x-registers", {"vcpu": 0}), ("migrate", {}), ("migrate", {"uri": 5}),
            ("migrate", {"uri": "tcp:127.0.0.1:1", "x-check": "yes"}), ("migrate", {"uri": "nowhere"}),
            ("migrate", {"uri": "tcp:127.0.0.1:1", "check": True}), ("migrate", {"uri": "fd:nosuch"}),
            ("migrate", {"uri": "unix:" + "x" * 5000}), ("getfd", {"fdname": "x"}), ("getfd", {}), ("closefd", {}),
            ("closefd", {"fdname": "x"}), ("migrate-set-parameters", {"max-bandwidth": -1}),
            ("migrate-set-parameters", {"max-bandwidth": 1.5}), ("migrate-set-parameters", {"x": 1}),
            ("migrate-set-parameters", {"x-dirty-log": 1}), ("migrate-set-parameters", {"x-dirty-log": "bitmap"}),
            ("migrate-set-parameters", {"x-deadline-ms": 99}), ("migrate-set-parameters", {"x-keepalive-ms": 999}),
            ("x-resolve", {"owner": "nobody"}), ("x-resolve", {"owner": "source"}), ("x-resolve", {"force": True}),
            ("x-trace-exits", {}),
            ("migrate-set-parameters", {"x-chunk-pages": 65}), ("migrate-set-parameters", {"x-chunk-pages": 1 << 21}),
            ("migrate-set-parameters", {"downtime-limit": 7, "x-chunk-pages": 0}),
            ("migrate-set-parameters", {"multifd-channels": 17}),
            ("migrate-set-parameters", {"multifd-channels": 0}),
            ("migrate-set-parameters", {"multifd-compression": "gzip"}),
            ("migrate-set-parameters", {"multifd-zstd-level": 20}),
            ("migrate-set-parameters", {"x-zero-copy": 1}),
            ("migrate-set-parameters", {"x-throttle": "100"}),
            ("migrate-set-parameters", {"x-on-timeout": "wait"}),
            ("migrate-set-parameters", {"downtime-limit": 2000001})):
        check(here.refused(name, **arguments), f"{name} {arguments} is refused without a line")
        check(here.status() == "running", f"{name} {arguments} changed the state")
    check(here.command("query-migrate") == {}, "query-migrate before a migration")
    here.command("migrate-set-parameters", **{"downtime-limit": 3, "x-dirty-log": "get", "x-chunk-pages": 640,
                                              "x-deadline-ms": 3000})
    check(here.command("query-migrate-parameters") ==
          {"downtime-limit": 3, "x-downtime-limit-ns": 3000000, "max-bandwidth": 0, "x-chunk-pages": 640,
           "x-deadline-ms": 3000, "x-keepalive-ms": 5000, "x-dirty-log": "get", "multifd-channels": 1,
           "multifd-compression": "none", "multifd-zstd-level": 1, "x-zero-copy": "auto", "x-zero-pages": "first",
           "x-timeout-ms": 0, "x-on-timeout": "cancel", "x-throttle": "0"}, "query-migrate-parameters")
    names = {c["name"] for c in here.command("query-commands")}
    for name in names - {"quit", "migrate", "getfd", "closefd", "x-resolve", "x-trace-exits"}:
        here.command(name)
    here.command("cont")
    texts = [here.command("x-registers", cpu=cpu)["text"] for cpu in (0, 1)]
    check("CPU#0" in texts[0] and "CPU#1" in texts[1] and "RIP=" in texts[1], f"registers {texts}")
    check(here.command("x-registers")["text"].startswith(texts[0][:5]), "the default vCPU is the first")
    check(here.status() == "running", "reading registers stopped the guest")


def test_events_and_memory():
    source, control = run("idle hz=200", cpus=2)
    here, other = Control(control), Control(control)
    magic, version, ncpus, _ = guest_words(here, STATS_GPA, 4)
    check((magic, version, ncpus) == (MAGIC, 1, 2), f"statistics page: {magic:x} {version} {ncpus}")

    def heartbeats():
        return tuple(guest_words(here, STATS_GPA + STATS_CPU + 64 * cpu, 1)[0] for cpu in (0, 1))
    before = heartbeats()
    wait_until(lambda: all(b > a for a, b in zip(before, heartbeats())), "the heartbeats to grow")
    here.command("stop")
    before = heartbeats()
    for _ in range(20):
        check(here.status() == "paused" and heartbeats() == before, "a heartbeat of a paused guest")
    registers = here.command("x-registers")
    check(here.command("x-registers") == registers, "registers of a paused guest change")
    check(here.status() == "paused", "reading registers continued the guest")
    here.command("cont")
    wait_until(lambda: all(b > a for a, b in zip(before, heartbeats())), "the heartbeats to go on")
    other.status()
    check([e["event"] for e in other.events] == ["STOP", "RESUME"], f"events {other.events}")
    check(all(e["timestamp"]["seconds"] > 0 for e in other.events), "timestamps")
    source.send("q")
    source.expect_exit(0)
    last = [json.loads(line) for line in other.file]
    check([e["event"] for e in last] == ["SHUTDOWN"] and last[0]["data"]["guest"] is True, f"at the end {last}")


def test_events_of_arrival():
    for stopped in (False, True):
        source, control = run("idle")
        target, target_control, uri = receive()
        there = Control(target_control)
        check(there.status() == "inmigrate", there.status())
        check(there.refused("x-memory-map") and there.refused("x-registers"), "there is no guest yet")
        if stopped:
            Control(control).command("stop")
        migrate_well(control, uri)
        wait_until(lambda: there.status() in ("paused", "running"), "the arrival")
        check(Control(control).refused("x-memory-map"), "memory of a guest that has moved")
        names = [e["event"] for e in there.events]
        check(("RESUME" in names) == (not stopped) and "MIGRATION" in names, f"stopped {stopped}: {names}")
        if stopped:
            there.command("cont")
        check(guest_words(there, STATS_GPA, 1)[0] == MAGIC, "the statistics page after the migration")
        finish(target)
        source.kill()


def test_descriptors():
    source, control = run("idle")
    here = Control(control)

    def getfd(name, *fds):
        text = json.dumps({"execute": "getfd", "arguments": {"fdname": name}}).encode()
        here.socket.sendmsg([text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])
        return json.loads(here.file.readline())
    before = fds_of(source.pid)
    with open(path("file"), "wb") as file:
        check("return" in getfd("one", file.fileno()), "getfd")
        check(any(path("file") in fd for fd in fds_of(source.pid)), "the descriptor did not arrive")
        here.command("closefd", fdname="one")
        check(fds_of(source.pid) == before, "closefd left something open")
        check("error" in getfd("one"), "getfd without a descriptor")
        check("return" in getfd("one", file.fileno(), file.fileno(), file.fileno()), "three descriptors")
        check("return" in getfd("one", file.fileno()), "the same name again")
        here.command("closefd", fdname="one")
        check(fds_of(source.pid) == before, f"descriptors that nobody asked for stay open: {fds_of(source.pid)}")
        for i in range(8):
            check("return" in getfd(f"n{i}", file.fileno()), f"descriptor {i}")
        check("error" in getfd("n8", file.fileno()), "a ninth descriptor")
        check("error" in getfd("x" * 200, file.fileno()), "a long name")
        for i in range(8):
            here.command("closefd", fdname=f"n{i}")
    here.close()
    wait_until(lambda: len(fds_of(source.pid)) == len(before) - 1, "the client's descriptors to be closed")
    # A migration over a descriptor that is no socket fails, and leaves nothing.
    here = Control(control)
    with open(path("file"), "rb") as file:
        getfd("one", file.fileno())
        here.command("migrate", uri="fd:one")
        wait_until(lambda: here.command("query-migrate")["status"] == "failed", "the failure")
    check(here.status() == "running", here.status())
    check(not any(path("file") in fd for fd in fds_of(source.pid)), "a failed migration keeps its descriptor")


def test_half_closed_client():
    """printf … | nc -U -N: the answers come after the client has said all."""
    _, control = run("idle")
    wire = Wire(control)
    wire.socket.sendall(CAPABILITIES + b'{"execute":"query-commands"}{"execute":"query-status"}')
    wire.socket.shutdown(socket.SHUT_WR)
    answers = [json.loads(line) for line in wire.file]
    check(len(answers) == 3 and answers[2]["return"]["running"], f"{answers}")


def test_quit_answers():
    source, control = run("idle")
    done = subprocess.run([BINARY, "ctl", "--control", control, "quit"], capture_output=True, timeout=60, check=False)
    check(done.returncode == 0, f"quit: {done}")
    source.expect_exit(0)
    check(not os.path.exists(control), "the socket is left")


if __name__ == "__main__":
    main(test_wire, test_too_many_clients, test_arguments, test_events_and_memory, test_events_of_arrival,
         test_descriptors, test_half_closed_client, test_quit_answers)
