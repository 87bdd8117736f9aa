# SPDX-License-Identifier: MIT
"""Peers that are not what they should be: one clear line each, and the guest goes on."""
import os
import socket
import struct
import threading
import time

from harness import Control, check, finish, lasting, main, migrate, migrate_well, path, receive, run


def serve_once(answer):
    """A TCP server that answers the first connection with bytes made from what it received, then closes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = listener.accept()
        hello = connection.recv(64, socket.MSG_WAITALL)
        try:
            connection.sendall(answer(hello))
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
        except OSError:
            pass
        connection.close()
        listener.close()
    threading.Thread(target=serve, daemon=True).start()
    return f"tcp:127.0.0.1:{listener.getsockname()[1]}"


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"tcp:127.0.0.1:{probe.getsockname()[1]}"


def wrong_checksum(hello):
    answer = bytearray(hello)
    struct.pack_into("<H", answer, 12, 2)
    return bytes(answer)


PEERS = [
    ("garbage", lambda: serve_once(lambda _: b"HTTP/1.1 400 Bad Request\r\n" * 8), "wrong magic"),
    ("a few bytes", lambda: serve_once(lambda _: b"PAGE"), "closed the connection"),
    ("nothing", lambda: serve_once(lambda _: b""), "closed the connection"),
    ("damaged hello", lambda: serve_once(wrong_checksum), "damaged"),
    ("another source", lambda: serve_once(lambda hello: hello), "source too"),
    ("closed port", closed_port, "refused"),
    ("unreachable host", lambda: "tcp:255.255.255.255:4444", "nreachable"),
    ("no such host", lambda: "tcp:no-such-host.invalid:4444", "no-such-host.invalid"),
    ("no such socket", lambda: f"unix:{path('nowhere')}", "nowhere"),
    ("no such socket, in any script", lambda: "unix:/" + "\u20ac" * 100, "at most 107 bytes"),
    ("no scheme", lambda: "somewhere", "tcp:HOST:PORT"),
    ("bad port", lambda: "tcp:127.0.0.1:99999", "port"),
    ("failing command", lambda: "exec:exit 7", "closed the connection"),
    ("not a descriptor", lambda: "fd:977", "977"),
]


def test_bad_receivers():
    source, control = run("memcheck")
    for name, peer, line in PEERS:
        uri = peer()
        code, result, err = migrate(control, uri)
        text = err + str(result)
        check(code in (1, 2), f"{name}: exit {code}: {text}")
        check(line in text, f"{name}: no '{line}' in: {text}")
        errors = [l for l in err.splitlines() if l.strip()]
        check(len(errors) <= 1, f"{name}: more than one line: {errors}")
        check(Control(control).status() == "running", f"{name}: the guest stopped")
    target, _, uri = receive()
    migrate_well(control, uri)
    finish(target)
    source.kill()


def test_strangers_do_not_stop_the_receiver():
    target, target_control, uri = receive()
    port = int(uri.rsplit(":", 1)[1])
    for data in (b"", b"GET / HTTP/1.0\r\n\r\n" * 10, os.urandom(5000)):
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(data)
    check(Control(target_control).status() == "inmigrate", "the receiver gave up")
    source, control = run("memcheck")
    migrate_well(control, uri)
    finish(target)
    source.kill()


def test_scanners_keep_nobody_waiting():
    """Silent, dripping and half-spoken connections wait aside; a source that comes meanwhile is served at once, and one
    that gives up after HELLO does not end the receiver."""
    target, _, uri = receive()
    address = ("127.0.0.1", int(uri.rsplit(":", 1)[1]))
    silent = [socket.create_connection(address) for _ in range(12)]
    dripping = socket.create_connection(address)
    dripping.sendall(b"PAGEFE")
    _, control = run("memcheck")
    with socket.create_connection(address) as half:
        half.sendall(hello_of_a_source())
    begin = time.monotonic()
    migrate_well(control, uri)
    check(time.monotonic() - begin < lasting(5), "the migration had to wait for a scanner")
    for one in [dripping, *silent]:
        one.close()
    finish(target)


def hello_of_a_source():
    """What pageferry itself sends first."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        _, control = run("memcheck")
        here = Control(control)
        here.command("migrate", uri=f"tcp:127.0.0.1:{listener.getsockname()[1]}")
        connection, _ = listener.accept()
        with connection:
            return connection.recv(64, socket.MSG_WAITALL)


def test_second_source_is_told_at_once():
    target, _, uri = receive()
    _, first = run("memcheck")
    second_source, second = run("memcheck")
    migrate_well(first, uri)
    begin = time.monotonic()
    code, result, err = migrate(second, uri)
    check(code == 1 and "a guest is here already" in err + str(result), f"{code} {result} {err}")
    check(time.monotonic() - begin < lasting(5), "it waited for a receiver that has its guest")
    check(Control(second).status() == "running", "the second guest stopped")
    finish(target)
    finish(second_source)


if __name__ == "__main__":
    main(test_bad_receivers, test_strangers_do_not_stop_the_receiver, test_scanners_keep_nobody_waiting,
         test_second_source_is_told_at_once)
