# SPDX-License-Identifier: MIT
"""A client of gdb's remote serial protocol, and the symbols of an ELF file to use it with."""
import re
import socket
import struct

from harness import WAIT_S, Failure, check, wait_until

REGISTERS = ("rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15 rip eflags cs ss ds es fs gs "
             "st0 st1 st2 st3 st4 st5 st6 st7 fctrl fstat ftag fiseg fioff foseg fooff fop "
             "fs_base gs_base cr0 cr2 cr3 cr4 efer").split()
SOFTWARE, HARDWARE, WRITE, ACCESS = 0, 1, 2, 4
INTERRUPT = b"\x03"


def frame(body):
    return b"$" + body + b"#%02x" % (sum(body) & 0xff)


class Gdb:
    """Connects and does nothing more; begin() attaches."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(WAIT_S)

        def connect():
            try:
                self.socket.connect(path)
                return True
            except OSError:
                return False
        wait_until(connect, f"a debugger's socket at {path}", 10)
        self.input = b""
        self.acks = True

    def begin(self):
        supported = self.command("qSupported:swbreak+;hwbreak+")
        check("PacketSize=" in supported and "QStartNoAckMode+" in supported, supported)
        self.packet_bytes = int(re.search("PacketSize=([0-9a-f]+)", supported).group(1), 16)
        check(self.command("QStartNoAckMode") == "OK", "QStartNoAckMode")
        self.acks = False
        return self

    def send_raw(self, data):
        self.socket.sendall(data)

    def more(self):
        """False where the stub has closed the connection."""
        try:
            data = self.socket.recv(65536)
        except ConnectionError:
            data = b""
        self.input += data
        return bool(data)

    def gone(self):
        while self.more():
            pass
        return True

    def byte(self):
        while not self.input:
            check(self.more(), "the stub closed the connection")
        byte, self.input = self.input[:1], self.input[1:]
        return byte

    def receive(self):
        """A packet's body, whose escapes are undone."""
        byte = self.byte()
        while byte == b"+":
            byte = self.byte()
        check(byte == b"$", f"{byte} begins a packet")
        while not re.search(rb"#..", self.input, re.S):
            check(self.more(), f"the stub closed the connection in a packet: {self.input[:80]}")
        end = self.input.index(b"#")
        body, told = self.input[:end], int(self.input[end + 1:end + 3], 16)
        self.input = self.input[end + 3:]
        check(sum(body) & 0xff == told, f"bad checksum of {body[:80]}")
        if self.acks:
            self.send_raw(b"+")
        return re.sub(rb"\}(.)", lambda escaped: bytes([escaped.group(1)[0] ^ 0x20]), body, flags=re.S).decode()

    def send(self, body):
        self.send_raw(frame(body if isinstance(body, bytes) else body.encode()))
        if self.acks:
            check(self.byte() == b"+", f"{body} is not acknowledged")

    def command(self, body):
        self.send(body)
        return self.receive()

    def fine(self, body):
        reply = self.command(body)
        check(reply == "OK", f"{body}: {reply}")

    def refused(self, body):
        reply = self.command(body)
        check(re.fullmatch(r"E[0-9a-f]{2}", reply), f"{body} was not refused: {reply!r}")
        return reply

    def interrupt(self):
        self.send_raw(INTERRUPT)
        return self.receive()

    def choose(self, cpu):
        self.fine(f"Hg{cpu + 1:x}")

    def registers(self, cpu):
        self.choose(cpu)
        data = bytes.fromhex(self.command("g"))
        values = {}
        for name in REGISTERS:
            short = REGISTERS.index("eflags") <= REGISTERS.index(name) < REGISTERS.index("fs_base")
            size = 10 if name.startswith("st") else 4 if short else 8
            values[name], data = int.from_bytes(data[:size], "little"), data[size:]
        check(not data, f"{len(data)} bytes too many in g")
        return values

    def set_register(self, name, value, size=8):
        self.fine(f"P{REGISTERS.index(name):x}={value.to_bytes(size, 'little').hex()}")

    def read(self, address, count):
        reply = self.command(f"m{address:x},{count:x}")
        check(len(reply) == 2 * count, f"{count} bytes at {address:#x}: {reply[:20]}")
        return bytes.fromhex(reply)

    def write(self, address, data):
        self.fine(f"M{address:x},{len(data):x}:{data.hex()}")

    def insert(self, kind, address, size=1):
        return self.command(f"Z{kind},{address:x},{size:x}")

    def remove(self, kind, address, size=1):
        self.fine(f"z{kind},{address:x},{size:x}")

    def step(self, cpu):
        return self.command(f"vCont;s:{cpu + 1:x}")

    def go(self):
        """Returns at once: receive() or interrupt() is next."""
        self.send("vCont;c")

    def detach(self):
        self.fine("D")
        check(self.gone(), "the stub keeps the connection after D")
        self.socket.close()

    def close(self):
        self.socket.close()


def stopped_cpu(stop):
    match = re.search("thread:([0-9a-f]+);", stop)
    check(match, f"no thread in {stop}")
    return int(match.group(1), 16) - 1


class Elf:
    """Symbols and loaded bytes of an ELF64 file."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        check(self.data[:5] == b"\x7fELF\x02", f"{path} is no ELF64")
        self.program_offset, section_offset = struct.unpack_from("<QQ", self.data, 32)
        self.nprograms = struct.unpack_from("<H", self.data, 56)[0]
        nsections = struct.unpack_from("<H", self.data, 60)[0]
        sections = [struct.unpack_from("<IIQQQQIIQQ", self.data, section_offset + 64 * i) for i in range(nsections)]
        self.symbols = {}
        for _, kind, _, _, offset, size, link, *_ in sections:
            if kind == 2:
                self._read_symbols(offset, size, sections[link][4])

    def _read_symbols(self, offset, size, names):
        for at in range(offset, offset + size, 24):
            name, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", self.data, at)
            end = self.data.index(b"\0", names + name)
            self.symbols[self.data[names + name:end].decode()] = value

    def address(self, symbol):
        if symbol not in self.symbols:
            raise Failure(f"no symbol {symbol}")
        return self.symbols[symbol]

    def bytes_at(self, address, count):
        for i in range(self.nprograms):
            kind, _, offset, virtual, _, size = struct.unpack_from("<IIQQQQ", self.data, self.program_offset + 56 * i)
            if kind == 1 and virtual <= address < virtual + size:
                return self.data[offset + address - virtual:][:count]
        raise Failure(f"nothing is loaded at {address:#x}")
