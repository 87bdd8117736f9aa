# SPDX-License-Identifier: MIT
"""The command line: what is refused and with which line, options that change the machine, standard input and output."""
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import termios

import harness
from harness import BINARY, Control, Process, check, main, path, receive, run, times, wait_until

# Real mode at 0x1000: out 0xf4, eax = 7.
EXIT_7 = bytes.fromhex("66b807000000" "e7f4" "f4ebfd")
# The same through DX, with a port that is filled in.
EXIT_9_BY_DX = "66b809000000" "ba{}" "66ef" "f4ebfd"
# Reads the serial port up to a q; the sum of all bytes is the exit code: bl = 0; until LSR has data: in al, LSR;
# in al, RBR; bl += al; until al == 'q'; out 0xf4, bl.
ADD_INPUT = bytes.fromhex("30db" "bafd03" "ec" "a801" "74f8" "baf803" "ec" "00c3" "3c71" "75ee" "660fb6c3" "66e7f4"
                          "f4ebfd")

# out 0x3f8, 'A' in a loop.
PRINT_FOR_EVER = bytes.fromhex("baf803" "b041" "ee" "ebfd")


def call(*arguments, stdin=subprocess.DEVNULL):
    done = subprocess.run([BINARY, *arguments], stdin=stdin, capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr.decode(errors="replace")


def refused(status, fragment, *arguments):
    """One error line that holds the fragment, nothing on stdout, and that exit status."""
    code, out, err = call(*arguments)
    text = f"{arguments}: status {code}, stdout {out!r}, stderr {err!r}"
    check(code == status, f"not status {status}: {text}")
    check(err.count("\n") == 1 and err.startswith("pageferry: error: "), f"not one error line: {text}")
    check(fragment in err, f"no {fragment!r}: {text}")
    check(out == b"", f"stdout was used: {text}")


def write(name, data):
    with open(path(name), "wb") as file:
        file.write(data)
    return path(name)


def test_help():
    for words in ([], ["run"], ["receive"], ["migrate"], ["inspect"], ["ctl"], ["info"], ["selftest"], ["bench"],
                  ["bench", "dirty-log"], ["bench", "bitmap"], ["bench", "migrate"]):
        for flag in ("--help", "-h"):
            code, out, err = call(*words, flag)
            check(code == 0 and not err, f"{words} {flag}: {code} {err}")
            lines = out.decode().splitlines()
            check(lines[0].startswith("usage: pageferry"), f"{words}: {lines[0]}")
            check(len(lines) <= 24, f"help of {words} has {len(lines)} lines")
            wide = [line for line in lines if len(line) > 80]
            check(not wide, f"help of {words} is wider than 80 columns: {wide}")
    check(call()[0] == 2, "no command is bad usage")
    check(call("--version")[1].startswith(b"pageferry "), "--version")
    refused(2, "there is no command 'fly'", "fly")


def test_bad_usage_of_run():
    for value in ("0", "1", "4095", "1M", "4097", "2097153"):
        refused(2, "--memory", "run", "-m", value)
    refused(2, "RAM", "run", "-m", "4097G")
    for value in ("", "12Q", "-64M", "64 M", "1.5G", "99999999999999999999", "17179869184G", "M"):
        refused(2, "-m", "run", "-m", value)
        refused(2, "--memory", "run", f"--memory={value}")
    for value in ("0", "17", "-1", "two", "", "4294967297", "18446744073709551617"):
        refused(2, "--cpus", "run", f"--cpus={value}")
    for option in ("-m", "-c", "--memory", "--cpus", "--cpu", "--append", "--control", "--serial",
                   "--backing", "--exit-port", "--load-address"):
        refused(2, "needs a value", "run", option)
    refused(2, "unknown option --colour", "run", "--colour", "red")
    refused(2, "unknown option --mem", "run", "--mem=64M")
    refused(2, "unknown option -x", "run", "-x")
    refused(2, "takes no value", "run", "--paused=yes")
    refused(2, "left over", "run", "a", "b")
    refused(2, "no-such-feature", "run", "--cpu", "host,-no-such-feature")
    for spec in ("", "guest", "host,", "host,sse2", "host,-", "host;-sse2"):
        refused(2, "", "run", "--cpu", spec)
    refused(2, "anon, thp, memfd or hugetlb", "run", "--backing", "paper")
    for value in ("65536", "-1", "f4", "0x", ""):
        refused(2, "--exit-port", "run", f"--exit-port={value}")
    refused(2, "belongs to the serial port", "run", "--exit-port", "0x3f8")
    refused(2, "belongs to the ACPI sleep registers", "run", "--exit-port", "0x5fd")
    refused(2, "port", "run", "--exit-port", "0xffff")
    refused(2, "needs an IMAGE", "run", "--load-address", "0x1000")
    refused(2, "--load-address", "run", "--load-address", "here", "/dev/null")
    refused(2, "stdio, null or file:PATH", "run", "--serial", "printer")
    refused(2, "stdio, null or file:PATH", "run", "--serial", "file:")
    refused(2, "--append", "run", "--append", "x" * 5000)


def test_failures_of_run():
    refused(1, "no/such/file", "run", "no/such/file")
    refused(1, "irectory", "run", harness.directory)
    refused(1, "/dev/null", "run", "/dev/null")
    refused(1, "empty", "run", write("empty", b""))
    os.mkfifo(path("fifo"))
    refused(1, "fifo", "run", path("fifo"))
    refused(1, "no/such/dir", "run", "--serial", "file:no/such/dir/log")
    refused(1, "fifo", "run", "--serial", f"file:{path('fifo')}")
    refused(1, "no/such/dir", "run", "--control", "no/such/dir/socket")
    refused(1, "at most", "run", "--control", path("x" * 120))
    refused(1, "no socket", "run", "--control", write("file", b"precious"))
    with open(path("file"), "rb") as file:
        check(file.read() == b"precious", "a file in the control socket's place was changed")
    refused(1, "this host", "run", "-m", "4096G")
    with open("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", encoding="ascii") as file:
        if int(file.read()) == 0:
            refused(1, "huge", "run", "--backing", "hugetlb")


def test_bad_images():
    with open(BINARY, "rb") as file:
        program = file.read(1 << 20)
    refused(1, "text", "run", write("text", b"#!/bin/sh\necho hello\n" * 10))
    for length in (1, 4, 5, 63, 64, 100):
        refused(1, f"elf{length}", "run", write(f"elf{length}", program[:length]))
    refused(1, "program", "run", write("program", program))
    elf32 = bytearray(program[:4096])
    elf32[4] = 1
    refused(1, "elf32", "run", write("elf32", bytes(elf32)))
    bz_image = bytearray(32768)
    bz_image[0x1fe:0x200] = b"\x55\xaa"
    bz_image[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", bz_image, 0x206, 0x20c)
    refused(1, "bzImage", "run", write("linux", bytes(bz_image)))
    refused(1, "gzip", "run", write("packed", b"\x1f\x8b\x08" + bytes(1000)))
    # Flat images: outside RAM, at its very end.
    flat = write("flat", EXIT_7)
    for address in ("0x4000000", "0x3ffffff", "0xfffffffffffffff0"):
        refused(1, "flat", "run", "-m", "64M", "--load-address", address, flat)


def test_bad_usage_of_receive():
    refused(2, "--listen", "receive")
    refused(2, "--listen", "receive", "--listen", "tcp:0", "--stdio")
    refused(2, "left over", "receive", "--listen", "tcp:0", "extra")
    for address in ("tcp:127.0.0.1:65536", "tcp:127.0.0.1:http", "tcp:", "unix:", "udp:1", "4444", "",
                    "tcp:::1:44"):
        refused(2, "tcp:", "receive", "--listen", address)
    for address in ("exec:cat", "fd:0"):
        refused(2, "--listen", "receive", "--listen", address)
    refused(2, "--stdio", "receive", "--stdio", "--serial", "stdio")
    refused(2, "anon, thp, memfd or hugetlb", "receive", "--listen", "tcp:0", "--backing", "paper")
    refused(2, "--from file:PATH", "receive", "--listen", f"file:{path('x')}")
    refused(2, "--from file:PATH", "receive", "--from", "tcp:1")
    refused(2, "--from file:PATH", "receive", "--from", path("x"))
    refused(2, "--listen", "receive", "--from", "file:x", "--stdio")
    refused(2, "--paused", "receive", "--stdio", "--paused")
    refused(1, "No such file", "receive", "--from", f"file:{path('no.snap')}")
    refused(1, "no-such-host.invalid", "receive", "--listen", "tcp:no-such-host.invalid:0")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused(1, "in use", "receive", "--listen", f"tcp:127.0.0.1:{port}")
    refused(1, "no socket", "receive", "--listen", f"unix:{write('file', b'x')}")
    first, _, _ = receive(f"unix:{path('link')}")
    refused(1, "in use", "receive", "--listen", f"unix:{path('link')}")
    check(first.alive() and os.path.exists(path("link")), "the first receiver lost its socket")
    first.popen.send_signal(signal.SIGTERM)
    first.expect_exit(143)
    check(not os.path.exists(path("link")), "the receiver left its socket")


def test_bad_usage_of_the_others():
    dead = path("dead")
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(dead)
    refused(2, "--control", "migrate", "tcp:127.0.0.1:1")
    refused(2, "--control", "migrate", "--control", dead)
    refused(2, "--control", "migrate", "--control", dead, "tcp:1", "tcp:2")
    refused(1, "dead", "migrate", "--control", dead, "tcp:127.0.0.1:1")
    refused(1, "nowhere", "migrate", "--control", path("nowhere"), "tcp:127.0.0.1:1")
    refused(2, "tcp:HOST:PORT", "migrate", "--control", dead, "nowhere")
    for value in ("10", "ms", "-1ms", "1.5s", "2001s", "99999999999999s"):
        refused(2, "--downtime-limit", "migrate", "--control", dead, "--downtime-limit", value, "tcp:1")
    for value in ("fast", "10MB", "9223372036854775808"):
        refused(2, "--max-bandwidth", "migrate", "--control", dead, "--max-bandwidth", value, "tcp:1")
    for option, values in (("--streams", ("0", "17", "many")), ("--compress", ("gzip", "zstd:", "zstd:20", "lz4:1", "")),
                           ("--zero-copy", ("yes", "")), ("--zero-pages", ("last", "f")), ("--on-timeout", ("wait", "")),
                           ("--throttle", ("100", "-1", "most")), ("--timeout", ("soon",))):
        for value in values:
            refused(2, "", "migrate", "--control", dead, option, value, "tcp:1")
    refused(2, "--control", "ctl", "status")
    refused(2, "--control", "ctl", "--control", dead)
    refused(1, "dead", "ctl", "--control", dead, "status")
    refused(2, "FILE", "inspect")
    refused(2, "FILE", "inspect", "a", "b")
    refused(1, "/dev/null", "inspect", "/dev/null")
    refused(2, "left over", "info", "extra")
    refused(2, "unknown option", "info", "--xml")
    refused(2, "left over", "selftest", "extra")
    for value in ("", "page", "get,", "get;clear", "x" * 100):
        refused(2, "get, clear", "selftest", "--backend", value)
    for value in ("0", "17", "two"):
        refused(2, "--cpus", "selftest", "--cpus", value)


def test_ctl():
    process, control = run("idle")

    def ctl(*words):
        return ("ctl", "--control", control, *words)
    refused(1, "there is no command fly", *ctl("fly"))
    refused(2, "KEY=VALUE", *ctl("x-registers", "0"))
    refused(2, "KEY=VALUE", *ctl("x-registers", "=0"))
    refused(2, "UTF-8", "migrate", "--control", control, b"unix:/caf\xe9")
    refused(1, "cpu", *ctl("regs", "cpu=99"))
    refused(1, "cpu", *ctl("regs", "cpu=4294967296"))
    refused(1, "cpu", *ctl("regs", "cpu=first"))
    refused(1, "vCPU 1", *ctl("regs", "cpu=1"))
    refused(1, "no argument \"wait\"", *ctl("stop", "wait=true"))
    refused(1, "x-check", *ctl("migrate", "uri=tcp:127.0.0.1:1", "x-check=1"))
    code, out, _ = call(*ctl("regs", "cpu=0"))
    check(code == 0 and b"RIP=" in out, f"regs: {out}")
    for command, state in (("stop", b"paused"), ("stop", b"paused"), ("cont", b"running"),
                           ("cont", b"running")):
        check(call(*ctl(command))[0] == 0, command)
        check(state in call(*ctl("status"))[1], f"no {state} after {command}")
    check(call(*ctl("quit"))[0] == 0, "quit")
    process.expect_exit(0)
    check(not os.path.exists(control), "the control socket was left behind")


def test_info():
    code, text, _ = call("info")
    check(code == 0 and b"max_vcpus" in text, "info")
    code, text, _ = call("info", "--json")
    value = harness.json.loads(text)
    check(code == 0 and value["max_vcpus"] >= 1 and value["dirty_log"]["chosen"], f"info --json: {value}")


def test_flat_images_and_exit_ports():
    flat = write("flat", EXIT_7)
    for address in ("0x1000", "4096", "0x8000"):
        check(call("run", "--load-address", address, flat)[0] == 7, f"exit code of a flat image at {address}")
    by_dx = write("by-dx", bytes.fromhex(EXIT_9_BY_DX.format("0107")))
    check(call("run", "--exit-port", "0x701", "--load-address", "0x1000", by_dx)[0] == 9, "--exit-port")
    check(call("run", "--exit-port", "1793", "--load-address", "0x1000", by_dx)[0] == 9, "--exit-port")
    # The built-in guest learns its exit port from the device tree.
    check(call("run", "--exit-port", "0x701")[0] == 0, "the guest does not find another exit port")
    check(call("run", "--append", "no-such-workload")[0] == 32, "the guest's exit code")
    # Protected mode above 1 MiB: mov eax, 5; out 0xf4, eax.
    flat = write("flat32", bytes.fromhex("b805000000" "e7f4" "f4ebfd"))
    check(call("run", "--load-address", "0x100000", flat)[0] == 5, "a flat image in protected mode")
    # A triple fault ends the run: lidt [0]; ud2, with an IDT of limit 0.
    flat = write("fault", bytes.fromhex("0f011e0000" "0f0b"))
    code, _, err = call("run", "--load-address", "0x100000", flat)
    check(code in (0, 1) and err, f"a triple fault: {code} {err}")


def test_cpu_features():
    for feature in ("avx2", "sse4.2", "rdrand"):
        code, _, err = call("run", "--cpu", f"host,-{feature}")
        check(code == 0, f"without {feature}: {code} {err}")
    code, _, err = call("run", "-c", "2", "--cpu", "host,-avx2,-avx")
    check(code == 0, f"without two features: {code} {err}")


def test_serial():
    code, out, err = call("run", "--serial", "null")
    check(code == 0 and out == b"", f"--serial null: {code} {out} {err}")
    code, out, err = call("run", "--serial", f"file:{path('log')}")
    with open(path("log"), "rb") as file:
        check(code == 0 and out == b"" and b"hello" in file.read(), f"--serial file: {code} {out} {err}")
    code, _, err = call("run", "--serial", "file:/dev/full")
    check(code == 0 and "console's output is gone" in err, f"a full disk: {code} {err}")


def test_paused():
    process, control = run("hello", options=("--paused",), wait=None)
    here = Control(control)
    check(here.status() == "prelaunch", here.status())
    check("RIP=" in here.command("x-registers")["text"], "registers before the start")
    check(process.out == b"", "a paused guest printed")
    here.command("cont")
    process.expect_exit(0)
    check(b"hello" in process.out, "no hello after cont")


def test_signals():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        process, control = run("idle")
        process.popen.send_signal(number)
        process.expect_exit(128 + number)
        check(not os.path.exists(control), f"the control socket was left after signal {number}")
        check(process.err.count(b"\n") == 1, f"not one line: {process.err}")
    process, _, _ = receive()
    process.popen.send_signal(signal.SIGTERM)
    process.expect_exit(143)


def test_standard_input():
    # Nothing to read.
    process, control = run("idle", wait="ready", options=())
    process.popen.stdin.close()
    check(Control(control).status() == "running", "end of input stopped the guest")
    process.kill()
    # A guest that answers nothing gets all of a file and of a pipe, each byte once.
    reader = write("reader", ADD_INPUT)
    data = os.urandom(times(6000)).replace(b"q", b"r") + b"q"
    with open(write("input", data), "rb") as file:
        code, _, err = call("run", "--load-address", "0x1000", reader, stdin=file)
        check(code == sum(data) % 256, f"a file as input: {code}, not {sum(data) % 256}: {err}")
    process = Process("run", "--load-address", "0x1000", reader)
    process.popen.stdin.write(data)
    process.popen.stdin.close()
    process.expect_exit(sum(data) % 256)
    # A pipe that is filled and closed before the guest is up.
    process = Process("run", "--append", "idle")
    process.send("q")
    process.popen.stdin.close()
    process.expect_exit(0)


def test_closed_descriptors():
    """Descriptors 0, 1, 2 that are not there must not become ours: the guest's output would go to a socket."""
    for closing in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        command = f'exec "$0" run --control {path("c.sock")} {closing}'
        done = subprocess.run(["sh", "-c", command, BINARY], stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=60, check=False)
        check(done.returncode == 0 and not done.stderr, f"{closing}: {done}")
        check((b"hello" in done.stdout) == (">&-" not in closing.split()), f"{closing}: {done.stdout}")


def test_reader_that_leaves():
    process, control = run("echo hz=100")
    process.popen.stdin.write(b"a line\n")
    process.popen.stdin.flush()
    process.wait_output("a line")
    process.kill()
    done = subprocess.run(["sh", "-c", '"$0" run --append idle\\ seconds=1 | true', BINARY], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=60, check=False)
    check(b"Broken pipe" in done.stderr, f"a reader that left: {done.stderr}")


def test_terminal():
    """Raw while it is the console, as before afterwards; Ctrl-A x ends; one that nobody reads holds up nothing."""
    try:
        master, slave = pty.openpty()
    except OSError as error:
        print(f"not tested here: {error}")
        return
    before = termios.tcgetattr(slave)
    control = path("tty.sock")

    def start(*arguments):
        process = subprocess.Popen([BINARY, "run", "--control", control, *arguments], stdin=slave, stdout=slave,
                                   stderr=subprocess.PIPE)
        check(Control(control).status() == "running", "it does not run")
        return process
    process = start("--append", "idle")
    wait_until(lambda: not termios.tcgetattr(slave)[3] & termios.ICANON, "the terminal to be raw")
    os.write(master, b"\x01x")
    check(process.wait(30) == 0, "Ctrl-A x")
    check(termios.tcgetattr(slave) == before, "the terminal's settings were not restored")
    process = start("--load-address", "0x1000", write("printer", PRINT_FOR_EVER))
    wait_until(lambda: not select.select([], [slave], [], 0)[1], "the terminal to be full")
    here = Control(control)
    for _ in range(3):
        here.command("stop")
        here.command("cont")
    process.send_signal(signal.SIGTERM)
    check(process.wait(30) == 143, "SIGTERM with a full terminal")
    check(termios.tcgetattr(slave) == before, "the terminal's settings were not restored")
    for fd in (master, slave):
        os.close(fd)


def test_no_kvm():
    """In a mount namespace of its own, /dev/kvm is something else."""
    def probe(command):
        script = f'mount --bind /dev/null /dev/kvm && exec "$0" {command}'
        return subprocess.run(["unshare", "-m", "sh", "-c", script, BINARY], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=60, check=False)
    try:
        if subprocess.run(["unshare", "-m", "mount", "--bind", "/dev/null", "/dev/kvm"], check=False,
                          capture_output=True).returncode:
            raise FileNotFoundError("no mount namespaces for this user")
    except FileNotFoundError as error:
        print(f"not tested here: {error}")
        return
    for command in ("run", f"run --control {path('c')}", "receive --listen tcp:0", "info", "selftest"):
        done = probe(command)
        check(done.returncode == 1 and done.stderr.count(b"\n") == 1, f"{command} without KVM: {done}")
    wait_until(lambda: not os.path.exists(path("c")), "the control socket to go")


if __name__ == "__main__":
    main(test_help, test_bad_usage_of_run, test_failures_of_run, test_bad_images, test_bad_usage_of_receive,
         test_bad_usage_of_the_others, test_ctl, test_info, test_flat_images_and_exit_ports, test_cpu_features,
         test_serial, test_paused, test_signals, test_standard_input, test_closed_descriptors,
         test_reader_that_leaves, test_terminal, test_no_kvm)
