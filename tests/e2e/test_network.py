# SPDX-License-Identifier: MIT
"""Two hosts, played by two network namespaces with a veth pair between them: the link is taken down in every phase,
drops packets, is thin; the other side is stopped, has no memory, no huge pages, no port.
"""
import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys

from harness import (EFFORT, Control, Failure, check, finish, lasting, main, migrate, migrate_well, need_kvm, receive, run,
                     wait_until)
from relay import HANG, PASS, Relay

SOURCE, TARGET = "pageferry-a", "pageferry-b"
ADDRESSES = {SOURCE: "10.99.0.1", TARGET: "10.99.0.2"}
LINK = "link0"
WORKLOAD = "memcheck set=8M"
CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
HOME = os.open("/proc/self/ns/net", os.O_RDONLY)


def ip(*words, fails=False):
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode and not fails:
        raise Failure(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.returncode == 0


def shape(*words):
    """What the source's end of the link does to packets."""
    subprocess.run(["tc", "-n", SOURCE, "qdisc", "del", "dev", LINK, "root"], capture_output=True, check=False)
    if words:
        done = subprocess.run(["tc", "-n", SOURCE, "qdisc", "add", "dev", LINK, "root", *words], capture_output=True,
                              text=True, check=False)
        check(done.returncode == 0, f"tc {words}: {done.stderr}")


class Host:
    """`with Host(SOURCE):` what is started within, threads too, is on that host."""

    def __init__(self, name):
        self.fd = os.open(f"/run/netns/{name}", os.O_RDONLY)

    def __enter__(self):
        check(LIBC.setns(self.fd, CLONE_NEWNET) == 0, "setns")

    def __exit__(self, *_):
        check(LIBC.setns(HOME, CLONE_NEWNET) == 0, "setns")
        os.close(self.fd)


def build_hosts():
    tear_hosts_down()
    for name in ADDRESSES:
        ip("netns", "add", name)
        ip("-n", name, "link", "set", "lo", "up")
    ip("link", "add", "name", LINK, "netns", SOURCE, "type", "veth", "peer", "name", LINK, "netns", TARGET)
    for name, address in ADDRESSES.items():
        ip("-n", name, "address", "add", f"{address}/24", "dev", LINK)
    link("up")


def tear_hosts_down():
    for name in ADDRESSES:
        ip("netns", "del", name, fails=True)


def link(state):
    for name in ADDRESSES:
        ip("-n", name, "link", "set", LINK, state)


def far_receiver(*options):
    with Host(TARGET):
        return receive(f"tcp:{ADDRESSES[TARGET]}:0", options=options)


def near_source(append=WORKLOAD):
    """With a link that is as it should be, whatever the last test left."""
    link("up")
    shape()
    with Host(SOURCE):
        return run(append)


def still_runs(control):
    here = Control(control)
    check(here.status() == "running", f"the source is {here.status()}")
    first = str(here.command("x-registers", cpu=0))
    wait_until(lambda: str(here.command("x-registers", cpu=0)) != first, "the guest to go on", 10)


PATIENCE = f"{lasting(1)}s"
PHASES = [("HELLO", 0), ("MACHINE", 0), ("ACCEPT", 0), ("PAGES", 0), ("SYNCED", 0), ("STATE", None), ("READY", None)]
if EFFORT < 100:
    PHASES = PHASES[1::2]


def test_link_down_in_every_phase():
    """Nothing was committed: the guest goes on here, the destination gives up by itself."""
    source, control = near_source()
    for moment, number in PHASES:
        target, _, uri = far_receiver("--deadline", PATIENCE)

        def watch(name, round_number, moment=moment, number=number):
            if name == moment and number in (None, round_number):
                link("down")
                return HANG
            return PASS
        with Host(SOURCE):
            relay = Relay(uri, watch)
        code, result, err = migrate(control, relay.uri, "--deadline", PATIENCE)
        check(code == 1, f"{moment}: migrate exited with {code}: {result} {err}")
        still_runs(control)
        if (moment, number) not in (("HELLO", 0), ("MACHINE", 0)):  # before that it was no migration: it waits on
            target.expect_exit(1)
        target.kill()
        relay.close()
        link("up")
    _, _, uri = target = far_receiver()
    migrate_well(control, uri)
    finish(target[0])
    source.kill()


def test_link_down_after_commit():
    source, control = near_source()
    target, target_control, uri = far_receiver("--deadline", PATIENCE)

    def watch(name, _):
        if name == "RUNNING":
            link("down")
            return HANG
        return PASS
    with Host(SOURCE):
        relay = Relay(uri, watch)
    code, result, err = migrate(control, relay.uri, "--deadline", PATIENCE)
    check(code == 3, f"in doubt must exit with 3, not {code}: {result} {err}")
    check(Control(control).status() != "running", "the source runs too")
    check(Control(target_control).status() == "running", "the destination had COMMIT: it runs")
    relay.close()
    link("up")
    finish(target)
    source.kill()


def test_packets_are_lost():
    """Some: TCP repairs that. All: as a link that is down."""
    source, control = near_source()
    target, _, uri = far_receiver()
    shape("netem", "loss", "2%")
    migrate_well(control, uri, "--streams", "2")
    shape()
    finish(target)
    source.kill()
    source, control = near_source()
    target, _, uri = far_receiver("--deadline", PATIENCE)
    shape("netem", "loss", "100%")
    code, _, err = migrate(control, uri, "--deadline", PATIENCE)
    shape()
    check(code == 1 and err.strip(), f"exit {code}: {err}")
    still_runs(control)
    source.kill()
    target.kill()


def test_a_thin_link():
    source, control = near_source()
    target, _, uri = far_receiver()
    shape("tbf", "rate", "80mbit", "burst", "64k", "latency", "50ms")
    plain = migrate_well(control, uri, "--downtime-limit", "10s")
    shape()
    check(plain["bytes_sent"] > 4 << 20, f"{plain}")
    finish(target)
    source.kill()


def signalling(uri, process, number):
    """A relay at the source that sends the process a signal at the end of the first round."""
    with Host(SOURCE):
        return Relay(uri, lambda name, round_number: process.popen.send_signal(number)
                     if (name, round_number) == ("SYNC", 0) else PASS)


def test_the_receiver_is_stopped():
    source, control = near_source()
    target, _, uri = far_receiver()
    relay = signalling(uri, target, signal.SIGSTOP)
    code, result, err = migrate(control, relay.uri, "--deadline", PATIENCE)
    check(code == 1 and "silent" in err, f"exit {code}: {result} {err}")
    still_runs(control)
    target.popen.send_signal(signal.SIGCONT)
    target.expect_exit(1)
    relay.close()
    source.kill()


def test_the_source_is_killed():
    source, control = near_source()
    target, _, uri = far_receiver()
    relay = signalling(uri, source, signal.SIGKILL)
    migrate(control, relay.uri)
    target.expect_exit(1)
    relay.close()


def test_no_room_at_the_destination():
    source, control = near_source()
    target, _, uri = far_receiver("--backing", "hugetlb")
    code, _, err = migrate(control, uri)
    check(code == 1 and "huge" in err, f"without huge pages: exit {code}: {err}")
    still_runs(control)
    target.kill()
    target, _, uri = far_receiver()
    with open(f"/proc/{target.pid}/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.prlimit(target.pid, resource.RLIMIT_AS, (used + (32 << 20), used + (32 << 20)))
    code, _, err = migrate(control, uri)
    check(code == 1 and "memory" in err.lower(), f"without memory: exit {code}: {err}")
    still_runs(control)
    target.kill()
    target, _, uri = far_receiver()
    with Host(TARGET):
        done = subprocess.run([os.environ["PAGEFERRY"], "receive", "--listen", uri], capture_output=True, text=True,
                              timeout=30, check=False)
    check(done.returncode == 1 and len(done.stderr.splitlines()) == 1, f"a port that is taken: {done}")
    migrate_well(control, uri)
    finish(target)
    source.kill()


if __name__ == "__main__":
    need_kvm()
    if os.geteuid() or not shutil.which("ip") or not shutil.which("tc"):
        print("SKIP: needs root, ip and tc (iproute2) for network namespaces")
        sys.exit(77)
    try:
        build_hosts()
    except Failure as error:
        print(f"SKIP: no network namespaces here: {error}")
        sys.exit(77)
    try:
        main(test_link_down_in_every_phase, test_link_down_after_commit, test_packets_are_lost, test_a_thin_link,
             test_the_receiver_is_stopped, test_the_source_is_killed, test_no_room_at_the_destination)
    finally:
        tear_hosts_down()
