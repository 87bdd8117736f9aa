# SPDX-License-Identifier: MIT
"""A client of the control protocol that QEMU and pageferry share (QMP)."""
import json
import select
import socket
import time


class Failure(Exception):
    """One line for the user."""


class Ended(Failure):
    """A VMM is no more; the line says which, how, and its last words."""

    def __init__(self, process):
        super().__init__(f"{process} ended{process.how()}: {process.last_words()}")


class Qmp:
    def __init__(self, path, process, seconds):
        self.socket = socket.socket(socket.AF_UNIX)
        self.rest, self.events = b"", []
        self.seconds = seconds
        end = time.monotonic() + seconds
        while True:
            try:
                self.socket.connect(path)
                break
            except OSError:
                if process.ended() or time.monotonic() > end:
                    raise Failure(f"{process} gives no control socket: {process.last_words()}") from None
                time.sleep(0.01)
        self.process = process
        self._next(lambda message: "QMP" in message)
        self.command("qmp_capabilities")

    def _read(self, seconds):
        """What came, whole messages only; nothing after so many seconds."""
        if not select.select([self.socket], [], [], seconds)[0]:
            return []
        try:
            data = self.socket.recv(65536)
        except OSError:
            data = b""
        if not data:
            raise Ended(self.process)
        *lines, self.rest = (self.rest + data).split(b"\n")
        return [json.loads(line) for line in lines if line.strip()]

    def _next(self, wanted):
        end = time.monotonic() + self.seconds
        while time.monotonic() < end:
            messages = self._read(1)
            self.events += [message for message in messages if "event" in message]
            for message in messages:
                if wanted(message):
                    return message
        raise Failure(f"{self.process} does not answer for {self.seconds} s")

    def command(self, name, **arguments):
        """Names of arguments have underscores for QMP's dashes."""
        message = {"execute": name, "arguments": {key.replace("_", "-"): value for key, value in arguments.items()}}
        try:
            self.socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # it ended; reading tells its last words
        reply = self._next(lambda message: "return" in message or "error" in message)
        if "error" in reply:
            raise Failure(f"{self.process}: {name}: {reply['error'].get('desc')}")
        return reply["return"]

    def poll_events(self):
        """Events since the last call, without waiting."""
        self.events += [message for message in self._read(0) if "event" in message]
        taken, self.events = self.events, []
        return taken

    def close(self):
        self.socket.close()
