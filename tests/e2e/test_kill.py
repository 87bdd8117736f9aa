# SPDX-License-Identifier: MIT
"""The receiver is killed at an exact point of the migration: the guest goes on at the source, the error names the
phase, no descriptor or thread is left, and a second attempt succeeds.
"""
import re
import time

from harness import (EFFORT, Control, check, fds_of, finish, main, migrate, migrate_well, receive, run,
                     threads_of, wait_until)
from relay import CLOSE, HANG, PASS, Relay

# (what is on its way when the receiver dies, what the line must say)
PHASES = [
    (("HELLO", 0), "at hello"),
    (("MACHINE", 0), "while the destination built the machine"),
    (("ACCEPT", 0), "while the destination built the machine"),
    (("EXTENTS", 0), "in round 0"),
    (("PAGES", 0), "in round 0"),
    (("SYNC", 0), "in round 0"),
    (("PAGES", 1), "in round 1"),
    (("SYNCED", 1), "in round 1"),
    (("PAGES", 2), "in round 2"),
    ("last SYNC", "(in the last round|after the state was sent, before COMMIT)"),
    (("STATE", None), "(while sending the state|after the state was sent, before COMMIT)"),
    (("READY", None), "after the state was sent, before COMMIT"),
]


def progress(control):
    """True once the guest has printed or counted: here, its vCPU's registers change."""
    first = str(control.command("x-registers", cpu=0))
    wait_until(lambda: str(control.command("x-registers", cpu=0)) != first, "the guest to go on", 10)


def killer(target, moment):
    rounds = [0]

    def watch(name, number):
        if name == "SYNC":
            rounds[0] = number
        hit = (name == "STATE" if moment == "last SYNC" else
               name == moment[0] and moment[1] in (None, number))
        if hit:
            target.kill()
            return CLOSE
        return PASS
    return watch


# Each moment costs two processes and part of a migration.
if EFFORT < 100:
    PHASES = PHASES[::2]

# Busy enough for a third round at this limit, which a slow host may never reach: only for moments within rounds.
WORKLOAD = "memcheck set=24M"
LIMITS = ("--downtime-limit", "1ms")


def test_every_phase():
    source, control = run(WORKLOAD)
    here = Control(control)
    before = None
    for moment, line in PHASES:
        target, _, uri = receive()
        relay = Relay(uri, killer(target, moment))
        within_rounds = moment[0] in ("PAGES", "SYNC", "SYNCED")
        code, result, err = migrate(control, relay.uri, *(LIMITS if within_rounds else ()))
        relay.close()
        text = err + str(result)
        check(code == 1, f"{moment}: migrate exited with {code}: {text}; saw {relay.seen[-5:]}")
        check(re.search(line, text), f"{moment}: no '{line}' in: {text}")
        check(here.status() == "running", f"{moment}: the source is {here.status()}")
        progress(here)
        now = (threads_of(source.pid), fds_of(source.pid))
        before = before or now
        check(now == before, f"{moment}: threads and descriptors {before} became {now}")
    target, _, uri = receive()
    migrate_well(control, uri)
    finish(target)


def test_link_cut_after_commit_is_in_doubt():
    source, control = run(WORKLOAD)
    target, target_control, uri = receive()
    relay = Relay(uri, lambda name, _: CLOSE if name == "RUNNING" else PASS)
    code, result, err = migrate(control, relay.uri)
    check(code == 3, f"in doubt must exit with 3, not {code}: {result} {err}")
    here = Control(control)
    check(here.status() not in ("running",), f"the source is {here.status()}")
    check("doubt" in here.refused("cont"), "cont names no reason")
    here.refused("migrate", uri=uri)
    check(Control(target_control).status() == "running", "the destination had COMMIT: it runs")
    here.command("quit")
    source.expect_exit(3)
    finish(target)


def test_commit_lost_runs_nowhere():
    source, control = run(WORKLOAD)
    target, _, uri = receive(options=("--answer", "1s"))
    relay = Relay(uri, lambda name, _: CLOSE if name == "COMMIT" else PASS)
    code, _, _ = migrate(control, relay.uri)
    check(code == 3, f"exit {code}")
    target.expect_exit(1)
    check(Control(control).status() != "running", "the source resumed by itself")
    source.kill()


def test_stop_and_cont_during_the_handover():
    """They would mean nothing at the source any more: refused, and the guest arrives as it was."""
    source, control = run(WORKLOAD)
    here = Control(control)
    target, target_control, uri = receive()
    refusals = []

    def watch(name, _):
        if name == "READY":
            refusals.extend(here.refused(verb) for verb in ("stop", "cont"))
            refusals.append(here.status())
        return PASS
    relay = Relay(uri, watch)
    migrate_well(control, relay.uri)
    check(len(refusals) == 3 and "handed over" in refusals[0] and "handed over" in refusals[1], f"{refusals}")
    check(refusals[2] == "finish-migrate", refusals[2])
    check(Control(target_control).status() == "running", "the guest did not arrive running")
    finish(target)
    source.kill()


def test_stopped_meanwhile_arrives_paused():
    """stop during the rounds: the guest is copied on, and arrives paused; a failure leaves it paused here."""
    source, control = run(WORKLOAD)
    here = Control(control)
    for fails in (True, False):
        target, target_control, uri = receive()

        def watch(name, number):
            if (name, number) == ("SYNCED", 0):
                here.command("stop")
            return CLOSE if fails and name == "READY" else PASS
        relay = Relay(uri, watch)
        code, result, err = migrate(control, relay.uri)
        check(code == (1 if fails else 0), f"exit {code}: {result} {err}")
        if fails:
            check(here.status() == "paused", f"after a failure: {here.status()}")
            here.command("cont")
            check(here.status() == "running", here.status())
    there = Control(target_control)
    check(there.status() == "paused", f"arrived {there.status()}")
    there.command("cont")
    finish(target)
    source.kill()


def test_receiver_quits_meanwhile():
    """Asked to quit while a guest arrives: it fails, says so, and tells the source."""
    source, control = run(WORKLOAD)
    target, target_control, uri = receive()
    there = Control(target_control)

    def watch(name, number):
        if (name, number) == ("SYNC", 0):
            there.command("quit")
        return PASS
    relay = Relay(uri, watch)
    code, result, err = migrate(control, relay.uri, *LIMITS)
    check(code == 1 and "cancelled" in err + str(result), f"{code} {result} {err}")
    target.expect_exit(1)
    check(b"the migration failed" in target.err, f"the receiver says {target.err}")
    check(Control(control).status() == "running", "the guest stopped")
    finish(source)


def test_source_killed_before_commit():
    source, control = run(WORKLOAD)
    target, _, uri = receive()

    def watch(name, _):
        if name == "STATE":
            source.kill()
            return CLOSE
        return PASS
    relay = Relay(uri, watch)
    migrate(control, relay.uri)
    target.expect_exit(1)


def test_silent_receiver():
    """A peer that is alive but says nothing is a failure too."""
    source, control = run(WORKLOAD)
    target, _, uri = receive()
    relay = Relay(uri, lambda name, number: HANG if (name, number) == ("SYNCED", 0) else PASS)
    begin = time.monotonic()
    code, result, err = migrate(control, relay.uri)
    check(code == 1 and "silent" in err + str(result), f"{code} {result} {err}")
    check(time.monotonic() - begin < 30, "the deadline is 10 s")
    check(Control(control).status() == "running", "the guest does not run")
    relay.close()
    target.expect_exit(1)
    finish(source)


if __name__ == "__main__":
    main(test_every_phase, test_link_cut_after_commit_is_in_doubt, test_commit_lost_runs_nowhere,
         test_stop_and_cont_during_the_handover, test_stopped_meanwhile_arrives_paused,
         test_receiver_quits_meanwhile,
         test_source_killed_before_commit, test_silent_receiver)
