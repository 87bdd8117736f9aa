# SPDX-License-Identifier: MIT
"""In doubt, and out of it: the destination is asked who owns the guest, its answer holds, and only where there is
none does the user's word count. And a deadline of one's own.
"""
import subprocess
import time

from harness import (BINARY, Control, check, finish, main, migrate, migrate_well, receive, run, wait_until)
from relay import CLOSE, HANG, PASS, Relay

WORKLOAD = "memcheck set=4M"


def resolve(control, *words):
    """Exit status and what it said."""
    done = subprocess.run([BINARY, "ctl", "--control", control, "resolve", *words], capture_output=True, timeout=60,
                          check=False)
    return done.returncode, (done.stdout + done.stderr).decode()


def into_doubt(lost, verdict=CLOSE, options=()):
    source, control = run(WORKLOAD)
    target, target_control, uri = receive(options=options)
    relay = Relay(uri, lambda name, _: verdict if name == lost else PASS)
    code, result, err = migrate(control, relay.uri, "--deadline", "2s")
    check(code == 3 and "resolve owner=" in err, f"{code} {result} {err}")
    check(Control(control).status() == "finish-migrate", "in doubt, and it runs")
    return source, control, target, target_control, relay


def test_running_lost():
    source, control, target, target_control, _ = into_doubt("RUNNING")
    here = Control(control)
    for name, arguments in (("cont", {}), ("stop", {}), ("migrate", {"uri": "tcp:127.0.0.1:1"})):
        check("doubt" in here.refused(name, **arguments), f"{name} names no reason")
    for force in ((), ("force=true",)):
        code, said = resolve(control, "owner=source", *force)
        check(code == 1 and "took the guest over" in said, f"{code} {said}")
    check(here.status() == "finish-migrate", here.status())
    check(resolve(control, "owner=nobody")[0] == 1, "nobody owns it")
    code, said = resolve(control, "owner=destination")
    check(code == 0, f"{code} {said}")
    check(here.status() == "postmigrate", here.status())
    check("moved" in here.refused("cont"), "cont is not refused")
    check("no migration is in doubt" in resolve(control, "owner=source")[1], "resolved twice")
    check(Control(target_control).status() == "running", "the destination had COMMIT: it runs")
    here.command("quit")
    source.expect_exit(0)
    finish(target)


def test_commit_lost():
    source, control, target, _, _ = into_doubt("COMMIT")
    check(target.alive(), "the destination has to answer")
    code, said = resolve(control, "owner=destination")
    check(code == 1 and "discarded" in said, f"{code} {said}")
    code, said = resolve(control, "owner=source")
    check(code == 0, f"{code} {said}")
    here = Control(control)
    check(here.status() == "running", here.status())
    target.kill()
    target, _, uri = receive()
    migrate_well(control, uri)
    source.kill()
    finish(target)


def test_destination_gone():
    source, control, target, _, _ = into_doubt("COMMIT")
    target.kill()
    code, said = resolve(control, "owner=source")
    check(code == 1 and "force=true" in said, f"{code} {said}")
    check(Control(control).status() == "finish-migrate", "it was settled without force")
    code, said = resolve(control, "owner=source", "force=true")
    check(code == 0, f"{code} {said}")
    check(Control(control).status() == "running", "the guest did not go on")
    finish(source)


def test_running_late():
    """It settles the matter by itself. And the process that has the guest takes no second one."""
    source, control = run(WORKLOAD)
    target, _, uri = receive()

    def watch(name, _):
        if name == "RUNNING":
            time.sleep(4)
        return PASS
    relay = Relay(uri, watch)
    code, _, err = migrate(control, relay.uri, "--deadline", "1s")
    check(code == 3, f"{code} {err}")
    here = Control(control)
    wait_until(lambda: here.status() == "postmigrate", "the late RUNNING to be heard", 20)
    second, second_control = run(WORKLOAD)
    code, _, err = migrate(second_control, uri)
    check(code == 1 and "a guest is here already" in err, f"{code} {err}")
    second.kill()
    source.kill()
    finish(target)


def test_answers_end():
    source, control, target, _, _ = into_doubt("COMMIT", options=("--answer", "1s"))
    target.expect_exit(1)
    check(b"it is answered for 1 s" in target.err, target.err)
    source.kill()


def test_deadline_of_both():
    """The link falls silent: either end gives up after its own deadline."""
    source, control = run(WORKLOAD)
    target, _, uri = receive(options=("--deadline", "2s"))
    relay = Relay(uri, lambda name, number: HANG if (name, number) == ("PAGES", 0) else PASS)
    begin = time.monotonic()
    code, result, err = migrate(control, relay.uri, "--deadline", "4s")
    took = time.monotonic() - begin
    check(code == 1 and 1.5 < took < 9, f"{code} after {took} s: {result} {err}")
    target.expect_exit(1)
    check(b"silent for 2.0 s" in target.err, f"not the deadline that was set: {target.err}")
    relay = Relay(receive()[2], lambda name, number: HANG if (name, number) == ("ACCEPT", 0) else PASS)
    begin = time.monotonic()
    code, result, err = migrate(control, relay.uri, "--deadline", "1s")
    took = time.monotonic() - begin
    check(code == 1 and "silent" in err and took < 8, f"{code} after {took} s: {result} {err}")
    for wrong in (("--deadline", "50ms"), ("--keepalive", "10ms"), ("--deadline", "3601s")):
        check(migrate(control, uri, *wrong)[0] == 2, f"{wrong} was taken")
    finish(source)


if __name__ == "__main__":
    main(test_running_lost, test_commit_lost, test_destination_gone, test_running_late, test_answers_end,
         test_deadline_of_both)
