# SPDX-License-Identifier: MIT
"""pageferry selftest: the table and the JSON agree with each other, with the exit status and with what the host
offers."""
import json
import os
import pty
import subprocess

from harness import BINARY, EFFORT, check, main

KINDS = {"small", "large", "several", "full"}
# KVM that runs over a dirty ring when a guest's kernel stores.
RING_IS_BROKEN = os.path.exists("/sys/module/kvm_pvm")


def selftest(*options):
    done = subprocess.run([BINARY, "selftest", *options], capture_output=True, text=True, timeout=200, check=False)
    return done.returncode, done.stdout, done.stderr


def offered():
    return json.loads(subprocess.run([BINARY, "info", "--json"], capture_output=True, check=True).stdout)


def test_full_json():
    status, out, err = selftest("--json")
    report = json.loads(out)
    info = offered()
    cases = report["cases"]
    check(not RING_IS_BROKEN or status == 1, "the ring of kvm_pvm was not seen to be broken")
    check(report["host"]["kernel"] == info["kernel"] and report["host"]["kvm"] == info["kvm"], f"{report['host']}")
    check(set(report["backends"]) == {"get", "clear", "ring"}, f"{report['backends']}")
    seen = {(c["backend"], c["kind"], c["guest_ring"], c["vcpus"]) for c in cases}
    check(len(cases) == len(seen) == 3 * 4 * 2 * 2 and {c["kind"] for c in cases} == KINDS, f"cases: {seen}")
    for case in cases:
        there = case["backend"] in info["dirty_log"]["backends"]
        bad = case["result"] == "broken"
        check((case["result"] == "absent") != there, f"offered: {there}, {case}")
        check(("reason" in case) == (case["result"] != "ok"), f"{case}")
        check(not there or (case["stores"] and case["reports"]), f"nothing was tried: {case}")
        check(case["lost_pages"] == 0 or bad and "first_lost" in case, f"{case}")
        # What is known to be broken is, if at all, where it is known to be.
        check(not bad or RING_IS_BROKEN and case["backend"] == "ring" and case["guest_ring"] == 0, f"{case}\n{err}")
        if case["backend"] == "ring" and case["kind"] == "full" and case["result"] == "ok":
            check(case["ring_full_exits"] > 0, f"no ring was ever full: {case}")
    for backend, result in report["backends"].items():
        results = {c["result"] for c in cases if c["backend"] == backend}
        check(result == ("broken" if "broken" in results else results.pop()), f"{backend}: {result}, {results}")
    check(status == int("broken" in report["backends"].values()), f"exit status {status}: {report['backends']}")
    check(("known" in report) == RING_IS_BROKEN, f"{report.get('known')}")


def test_table():
    if EFFORT < 100:
        print("  not tested: the same once more, for people")
        return
    status, out, err = selftest("--backend", "get,clear", "--cpus", "1")
    lines = out.splitlines()
    check(status == 0 and not err, f"status {status}: {err}")
    check(lines[0].startswith("host: Linux "), lines[0])
    header = next(line for line in lines if line.startswith("guest"))
    check(header.split() == ["guest", "get", "clear"], header)
    rows = [line for line in lines if line.startswith("ring ")]
    words = {"OK"} if "clear" in offered()["dirty_log"]["backends"] else {"OK", "absent"}
    check(len(rows) == 2 * len(KINDS) and all("1 vCPU," in row for row in rows), f"{rows}")
    check(all(set(row.split()[-2:]) == words for row in rows), f"{rows}")
    check(all(len(line) <= 80 for line in rows), "too wide")


def test_quick():
    status, out, _ = selftest("--quick", "--json")
    report = json.loads(out)
    check(status == 0, f"status {status}: {report}")
    check([c["kind"] for c in report["cases"]] == ["quick"] * 3, f"{report['cases']}")
    for name, result in report["backends"].items():
        check(result == ("ok" if name in offered()["dirty_log"]["backends"] else "absent"), f"{name}: {result}")


def test_terminal():
    """What is being tried is on a terminal, and gone at the end."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([BINARY, "selftest", "--backend", "get", "--quick"], stdout=subprocess.PIPE,
                          stderr=theirs) as process:
        out, _ = process.communicate(timeout=60)
    os.close(theirs)
    shown = os.read(ours, 4096)
    os.close(ours)
    check(process.returncode == 0 and b"\033" not in out, f"{out}")
    check(b"1 vCPU" in shown and shown.endswith(b"\r\033[K"), f"{shown}")


if __name__ == "__main__":
    main(test_full_json, test_table, test_quick, test_terminal)
