# SPDX-License-Identifier: MIT
"""A relay between source and destination that understands the stream (docs/wire-format.md) and lets a test act at
an exact record: before it is passed on, `watch(name, round)` is called; what it returns decides.
"""
import socket
import struct
import threading

NAMES = {1: "MACHINE", 2: "EXTENTS", 3: "PAGES", 4: "SYNC", 5: "STATE", 6: "COMMIT",
         32: "ACCEPT", 33: "SYNCED", 34: "READY", 35: "RUNNING", 36: "ANSWER", 64: "ERROR"}

PASS = None      # go on
CLOSE = "close"  # cut both connections, the record is lost
HANG = "hang"    # pass nothing more in this direction, keep the connections open


class Relay:
    def __init__(self, target, watch):
        """target: "tcp:127.0.0.1:PORT". uri: where the source should migrate to."""
        host, port = target.split(":")[1:]
        self.watch = watch
        self.seen = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.uri = f"tcp:127.0.0.1:{self.listener.getsockname()[1]}"
        self.target = (host, int(port))
        self.sockets = []
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        """Connection after connection: one that asks how the first one ended is passed on as well."""
        try:
            while True:
                source, _ = self.listener.accept()
                threading.Thread(target=self._carry, args=(source,), daemon=True).start()
        except OSError:
            pass

    def _carry(self, source):
        try:
            destination = socket.create_connection(self.target)
        except OSError:
            source.close()
            return
        self.sockets += [source, destination]
        for pair in ((source, destination), (destination, source)):
            threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def close(self):
        for one in [self.listener, *self.sockets]:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()

    @staticmethod
    def _exactly(sock, count):
        data = bytearray()
        while len(data) < count:
            piece = sock.recv(min(count - len(data), 1 << 20))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    def _pump(self, sock, other):
        try:
            hello = self._exactly(sock, 64)
            if self._act("HELLO", 0):
                return
            other.sendall(hello)
            while True:
                header = self._exactly(sock, 64)
                kind, _, round_number = struct.unpack_from("<HHI", header, 4)
                meta, = struct.unpack_from("<I", header, 24)
                payload, = struct.unpack_from("<Q", header, 32)
                if self._act(NAMES.get(kind, str(kind)), round_number):
                    return
                other.sendall(header + self._exactly(sock, meta))
                while payload:
                    piece = self._exactly(sock, min(payload, 1 << 20))
                    payload -= len(piece)
                    other.sendall(piece)
        except (EOFError, OSError):
            for one in (sock, other):
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def _act(self, name, round_number):
        self.seen.append((name, round_number))
        verdict = self.watch(name, round_number)
        if verdict == CLOSE:
            raise EOFError
        return verdict == HANG
