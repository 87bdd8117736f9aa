# SPDX-License-Identifier: MIT
"""`run --gdb`: a guest under a debugger, driven over gdb's remote serial protocol, and by gdb itself where it is
installed. Usage: test_gdb.py ELF, the built-in guest's.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
from xml.etree import ElementTree

from gdb_client import ACCESS, HARDWARE, INTERRUPT, REGISTERS, SOFTWARE, WRITE, Elf, Gdb, frame, stopped_cpu
from harness import (BINARY, Control, Process, check, finish, lasting, main, migrate, migrate_well, path, receive, run,
                     times, wait_until)

ELF = sys.argv[1]
HEARTBEAT = 0x100040  # guest/abi.h: of vCPU 0
MEMORY = 64 << 20
EXIT_BAD_COMMAND = 32


def start(append, cpus=1, paused=True, options=()):
    """(process, control path, the debugger's socket)"""
    socket = path("gdb.sock")
    process, control = run(append, cpus=cpus, options=("--gdb", f"unix:{socket}", *options,
                                                       *(("--paused",) if paused else ())),
                           wait=None if paused else "ready")
    return process, control, socket


def attach_running(append, cpus=1, options=()):
    """The same, stopped by the debugger once the workload runs; and the client."""
    process, control, socket = start(append, cpus, False, options)
    client = Gdb(socket).begin()
    check(client.command("?").startswith("T05"), "not stopped")
    return process, control, client


def cannot_break():
    """Why this host's KVM may be one that neither stops at int3 nor heeds debug registers; None: it must."""
    with open("/proc/cpuinfo", encoding="ascii") as file:
        if "QEMU TCG CPU" in file.read():
            return "QEMU's emulated CPU intercepts no int3 and loads no debug registers with VMRUN"
    if os.path.exists("/sys/module/kvm_pvm"):
        return "kvm_pvm emulates ring 0 without int3"
    return None


def refuses(client, kind, address, size=1):
    """Inserts; True where this host cannot, and then it says so and does not touch the guest."""
    before = client.read(address & ~7, 8)
    reply = client.insert(kind, address, size)
    if reply == "OK":
        return False
    why = cannot_break()
    check(why and reply == "E5f", f"Z{kind}: {reply}, and {why or 'this host can'}")
    check(client.read(address & ~7, 8) == before, "a refused breakpoint was written")
    print(f"  not tested, Z{kind} is refused here: {why}")
    return True


def test_first_instruction():
    """Registers, description and memory before the guest has run."""
    process, control, socket = start("hello", cpus=2)
    client = Gdb(socket).begin()
    check(client.command("?") == "T05thread:1;", client.command("?"))
    check(client.command("qfThreadInfo") == "m1,2" and client.command("qsThreadInfo") == "l", "threads")
    check(bytes.fromhex(client.command("qThreadExtraInfo,2")) == b"vCPU 1", "qThreadExtraInfo")
    check(client.command("qAttached") == "1" and client.command("T2") == "OK", "qAttached, T")
    client.refused("T3")
    check(Control(control).status() == "prelaunch", Control(control).status())
    boot = client.registers(0)
    elf = Elf(ELF)
    check(boot["cs"] and boot["cr0"] & 0x80000001 == 1 and not boot["efer"], f"no PVH entry: {boot}")
    check(client.read(boot["rip"], 16) == elf.bytes_at(boot["rip"], 16), "not the image at the entry")
    check(client.registers(1)["rip"] == 0xfff0, "vCPU 1 is not at the reset vector")
    xml, at = "", 0
    while True:
        part = client.command(f"qXfer:features:read:target.xml:{at:x},200")
        xml, at = xml + part[1:], at + len(part) - 1
        if part[0] == "l":
            break
    names = [register.get("name") for register in ElementTree.fromstring(xml).iter("reg")]
    check(names == REGISTERS, f"{names}")
    client.refused("qXfer:features:read:other.xml:0,200")
    client.close()
    wait_until(lambda: Control(control).status() == "prelaunch", "the guest that was never continued to stay")
    client = Gdb(socket).begin()
    client.go()
    check(client.receive() == "W00", "no W00")
    process.expect_exit(0)
    check(b"hello" in process.out, f"{process.out}")


def test_registers_and_memory():
    process, _, socket = start("idle")
    client = Gdb(socket).begin()
    boot = client.registers(0)
    client.set_register("rbx", 0x1122334455667788)
    client.set_register("st3", 0x3fff8000000000000000, 10)
    client.set_register("cr2", 0xabc000)
    check(client.command("p1") == "8877665544332211", "p")
    now = client.registers(0)
    check({name for name in now if now[name] != boot[name]} == {"rbx", "st3", "cr2"}, f"{now}")
    check(client.command(f"P{REGISTERS.index('cs'):x}={99:02x}000000").startswith("E"), "a selector was changed")
    for bad in ("p2f", "pffffffffffffffff", "P1=11", "P1", "G00", "g1"):
        client.refused(bad)
    client.fine("G" + client.command("g"))
    client.set_register("rbx", boot["rbx"])
    spot = 0x2000000
    client.write(spot + 4090, bytes(range(12)))
    check(client.read(spot + 4088, 16) == b"\0\0" + bytes(range(12)) + b"\0\0", "a write over a page's end")
    client.send(b"X%x,4:" % spot + b"}\x03}\x04}\x0a}\x5d")
    check(client.receive() == "OK" and client.read(spot, 4) == b"#$*}", "X")
    edge = client.read(MEMORY - 8, 8)
    for bad in (f"m{MEMORY - 8:x},10", f"M{MEMORY - 8:x},10:{'55' * 16}", "md8000000,1", "mfffffffffffffff0,20",
                "mffff800000000000,8", "m0,ffffffffffffffff", "m0", "m,4", "M0,4:0011", f"X{spot:x},4:abc",
                f"m0,{client.packet_bytes:x}"):
        client.refused(bad)
    check(client.read(MEMORY - 8, 8) == edge, "half of a refused write was done")
    client.go()
    process.wait_output("ready")
    check(client.interrupt().startswith("T02"), "no T02")
    now = client.registers(0)
    check(now["cr0"] >> 31 and now["efer"] & 0x400, f"no long mode: {now}")
    client.refused("m0,8")  # the null page, which exists but is not mapped
    client.refused("mffff800000000000,8")
    client.detach()
    finish(process)


def test_steps():
    """One vCPU makes steps, the other stays; nothing of what the steps interrupted is lost or doubled."""
    process, _, client = attach_running("counter", cpus=2)
    for cpu in range(2):
        other = client.registers(1 - cpu)
        seen = set()
        for _ in range(times(100)):
            stop = client.step(cpu)
            check(stop == f"T05thread:{cpu + 1};", stop)
            seen.add(client.registers(cpu)["rip"])
        check(len(seen) > 4, f"{len(seen)} addresses in all these steps")
        check(client.registers(1 - cpu) == other, "the other vCPU has moved")
        check(client.registers(cpu)["eflags"] & 0x100 == 0, "the trap flag shows")
    client.choose(1)
    client.fine("Hc2")
    check(client.command("s") == "T05thread:2;", "s after Hc")
    stop = client.command("vCont;s:1;c")
    check(stop == "T05thread:1;", f"one steps while the other runs: {stop}")
    client.refused("vCont;x")
    client.refused("vCont;s:9")
    client.detach()
    finish(process)


def test_breakpoints():
    """memcheck finds every byte of its memory as it should be, also after breakpoints were in its code."""
    process, _, client = attach_running("memcheck set=4M", cpus=2)
    elf = Elf(ELF)
    place = elf.address("worker_beat")
    if not refuses(client, SOFTWARE, place):
        client.fine(f"Z0,{place:x},1")
        check(client.read(place, 8) == elf.bytes_at(place, 8), "the breakpoint shows")
        for _ in range(times(20)):
            client.go()
            stop = client.receive()
            check("swbreak:;" in stop, stop)
            cpu = stopped_cpu(stop)
            check(client.registers(cpu)["rip"] == place, f"{stop} at {client.registers(cpu)['rip']:#x}")
            client.remove(SOFTWARE, place)
            check(client.step(cpu).startswith("T05"), "no step over it")
            client.fine(f"Z0,{place:x},1")
        client.write(place, elf.bytes_at(place, 4))
        client.go()
        check("swbreak:;" in client.receive(), "writing over a breakpoint removed it")
    for kind, address, size, reason in ((HARDWARE, place, 1, "hwbreak:;"), (WRITE, HEARTBEAT, 8, f"watch:{HEARTBEAT:x};"),
                                        (ACCESS, HEARTBEAT, 4, f"awatch:{HEARTBEAT:x};")):
        if refuses(client, kind, address, size):
            continue
        client.command(f"z0,{place:x},1")
        client.go()
        stop = client.receive()
        check(reason in stop, f"Z{kind}: {stop}")
        client.remove(kind, address, size)
        check(client.step(stopped_cpu(stop)).startswith("T05"), "no step after it")
    client.refused("Z2,100041,8")
    client.refused("Z1,100000,4")
    check(client.command("Z3,100040,8") == "", "a read watchpoint is not what a CPU has")
    client.insert(SOFTWARE, place)
    client.detach()
    finish(process)
    check(b"memcheck: OK" in process.out, f"{process.out[-200:]}")


def test_interrupt_and_loss():
    """Who connects and says nothing stops nothing; who goes away without a word leaves the guest running."""
    process, control, socket = start("idle", paused=False)
    watcher = Control(control)
    silent = Gdb(socket)
    second = Gdb(socket)
    check(second.gone(), "two debuggers")
    process.wait_error("turned away: another is connected")
    check(watcher.status() == "running", "a silent connection stopped the guest")
    silent.send_raw(b"+++GET / HTTP/1.0\r\n\r\n" + INTERRUPT)
    silent.close()
    client = Gdb(socket).begin()
    check(watcher.status() == "debug", watcher.status())
    for _ in range(times(10)):
        client.go()
        check(client.interrupt().startswith("T02"), "no T02")
    for verb in ("stop", "cont"):
        check("debugger" in watcher.refused(verb), verb)
    check("RIP=" in watcher.command("x-registers")["text"], "x-registers")
    client.close()
    wait_until(lambda: watcher.status() == "running", "the guest to go on without its debugger")
    watcher.command("stop")
    client = Gdb(socket).begin()
    client.close()
    wait_until(lambda: process.err.count(b"has detached") == 2, "the debugger to be gone")
    check(watcher.status() == "paused", "a guest that was paused before runs now")
    Gdb(socket).begin().detach()
    wait_until(lambda: watcher.status() == "running", "D to let the guest run on")
    first = Gdb(socket).begin()
    # It finds both at once: a next client, and that the first has gone.
    process.popen.send_signal(signal.SIGSTOP)
    second = Gdb(socket)
    first.close()
    process.popen.send_signal(signal.SIGCONT)
    second.begin().detach()
    finish(process)


def test_hostile():
    process, control, socket = start("idle", paused=False)
    client = Gdb(socket)
    client.send_raw(b"$?#00")
    check(client.byte() == b"-", "a bad checksum is not refused")
    client.send_raw(b"$" + b"a" * 100000 + b"#%02x" % (97 * 100000 & 0xff))
    check(client.byte() == b"+" and client.receive() == "E07", "a packet that is too long")
    process.wait_error("passed over")
    client.send_raw(b"-")
    check(client.receive() == "E07", "not sent again")
    client.begin()
    for bad in (b"", b"Z", b"Z0", b"Z0,", b"z9,0,0", b"H", b"Hg", b"Hgz", b"vCont", b"vCont;", b"qXfer:features:read:",
                b"qXfer:features:read:target.xml:", b"qXfer:features:read:target.xml:ffffffff,1", b"M", b"X", b"P", b"C",
                b"S", b"\0\0\0", b"\xff" * 300, b"qCRC:0,1", b"vMustReplyEmpty", b"qRcmd,00", b"$", b"cxyz", b"T"):
        client.send(bad.replace(b"$", b"}\x04"))
        reply = client.receive()
        check(reply == "" or reply[0] == "E", f"{bad[:40]}: {reply}")
    client.go()
    client.send("g")
    client.send("m100000,8")
    check(client.interrupt().startswith("T02"), "packets in between are answered")
    flood = Gdb(socket)
    check(flood.gone(), "two debuggers")
    client.socket.setblocking(False)
    text = frame(b"qXfer:features:read:target.xml:0,2000") * 4000
    try:
        while text:
            text = text[client.socket.send(text[:65536]):]
    except BlockingIOError:
        check(Control(control).status() in ("debug", "running"), "a client that does not read holds everybody up")
    except OSError:
        pass
    wait_until(lambda: Control(control).status() == "running", "the flooding client to be dropped")
    finish(process)


def flat(code):
    name = path("flat.bin")
    with open(name, "wb") as file:
        file.write(code)
    return name


def test_ends():
    """Exit code, triple fault and kill; a process that is ended by somebody else."""
    for append, code in (("hello", 0), ("nosuch", EXIT_BAD_COMMAND)):
        process, _, socket = start(append)
        client = Gdb(socket).begin()
        client.go()
        check(client.receive() == f"W{code:02x}", "how it ended")
        check(client.gone(), "the connection stays")
        process.expect_exit(code)
        check(not os.path.exists(socket), "the socket file is left behind")
    # lidt of an empty table, then an exception.
    process = Process("run", "--paused", "--gdb", f"unix:{path('flat.sock')}", "--load-address", "0x7c00",
                      flat(b"\x0f\x01\x1e\x00\x70\x0f\x0b"))
    client = Gdb(path("flat.sock")).begin()
    begin = client.registers(0)["rip"]
    check(client.read(0x7c00, 2) == b"\x0f\x01", "not the image")
    for _ in range(2):  # an emulated CPU may take the fault of a page that is not there yet for an instruction
        check(client.step(0) == "T05thread:1;", "step in real mode")
        if client.registers(0)["rip"] != begin:
            break
    check(client.registers(0)["rip"] == begin + 5, f"{client.registers(0)['rip']:#x}, {begin:#x}")
    client.go()
    check(client.receive() == "X06", "a triple fault")
    process.expect_exit(1)
    for running in (False, True):
        process, _, client = attach_running("idle")
        if running:
            client.go()
        client.send("k")
        check(client.gone(), "k")
        process.expect_exit(0)
        process.wait_error("the debugger ended the guest")
    process, control, client = attach_running("idle")
    Control(control).command("quit")
    check(client.gone(), "quit")
    process.expect_exit(0)


def test_migration():
    """Nothing that a debugger has its hands in is moved or saved."""
    process, control, client = attach_running("memcheck set=2M")
    refuses(client, SOFTWARE, Elf(ELF).address("worker_beat"))
    target, _, uri = receive()
    for where in (uri, f"file:{path('guest.snap')}"):
        code, result, err = migrate(control, where)
        check(code == 1 and "a debugger is attached" in (err + str(result)), f"{where}: {code} {err} {result}")
    check(not os.path.exists(path("guest.snap")), "a snapshot was begun")
    client.write(0x3000000, b"written by the debugger")
    client.detach()
    check(Control(control).status() == "running", Control(control).status())
    migrate_well(control, uri)
    late = Gdb(path("gdb.sock"))
    late.send_raw(frame(b"?"))
    check(late.gone(), "a debugger of a guest that is not here")
    process.wait_error("turned away: the guest has moved")
    finish(target)


def test_written_pages_move():
    """What a debugger writes while no page of it is dirty otherwise, a migration carries."""
    process, control, client = attach_running("idle")
    client.write(0x3000ff8, b"over the end of a page")
    client.detach()
    target, target_control, uri = receive(options=("--backing", "memfd"))
    migrate_well(control, uri)
    places = Control(target_control).command("x-memory-map")
    region = places["regions"][0]
    with open(f"/proc/{places['pid']}/fd/{region['fd']}", "rb") as memory:
        memory.seek(0x3000ff8)
        check(memory.read(22) == b"over the end of a page", "what the debugger wrote did not move")
    process.kill()
    finish(target)


def test_attach_during_migration():
    process, control, socket = start("idle fill=32M", paused=False)
    target, _, uri = receive()
    mover = subprocess.Popen([BINARY, "migrate", "--control", control, "--max-bandwidth", "1M", uri],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    watcher = Control(control)
    wait_until(lambda: watcher.command("query-migrate").get("status") == "active", "the migration to be under way")
    client = Gdb(socket)
    client.send_raw(frame(b"?"))
    check(client.gone(), "a debugger came in between")
    process.wait_error("turned away: a migration is under way")
    watcher.command("migrate_cancel")
    mover.wait(60)
    Gdb(socket).begin().detach()
    finish(process)
    target.kill()


def test_addresses():
    process = Process("run", "--paused", "--gdb", "tcp::0", "--append", "idle")
    where = process.wait_error(r"a debugger can attach at (\S+)").group(1)
    check(re.fullmatch(r"tcp:127\.0\.0\.1:\d+", where), where)
    process.kill()
    for bad in ("", "1234", "exec:true", "fd:3", "file:x", "tcp:", "tcp::99999"):
        process = Process("run", "--gdb", bad)
        process.expect_exit(2)
        check(process.err.count(b"\n") == 1, f"{process.err}")


def test_real_gdb():
    if not shutil.which("gdb"):
        print("  not tested: gdb is not installed here")
        return
    process, _, socket = start("counter", cpus=2)
    can_break = not cannot_break()
    commands = ["set confirm off", "set pagination off", f"target remote {socket}", "info registers rip cr0 fs_base",
                "info threads", "x/2i $pc", "stepi", "stepi"]
    if can_break:
        commands += ["break worker_next", "continue", "backtrace 1", "hbreak worker_beat", "continue", "delete",
                     f"watch *(long *){HEARTBEAT:#x}", "continue", "delete"]
    commands += ["info threads", "detach"]
    # No start-up files, no shell, no network.
    done = subprocess.run(["gdb", "-nx", "-batch", *[word for line in commands for word in ("-ex", line)], ELF],
                          capture_output=True, text=True, timeout=lasting(60), check=False, env={**os.environ, "HOME": path("")})
    wanted = ["vCPU 0", "vCPU 1", r"cr0 +0x1?[01]+", "Inferior 1 .* detached"]
    wanted += ["hit Breakpoint 1, worker_next", "hit Breakpoint 2, worker_beat", "Hardware watchpoint"] if can_break else []
    for pattern in wanted:
        check(re.search(pattern, done.stdout), f"/{pattern}/ is missing: {done.stdout} {done.stderr}")
    process.wait_output("ready")
    finish(process)


if __name__ == "__main__":
    main(test_first_instruction, test_registers_and_memory, test_steps, test_breakpoints, test_interrupt_and_loss,
         test_hostile, test_ends, test_migration, test_written_pages_move, test_attach_during_migration, test_addresses,
         test_real_gdb)
