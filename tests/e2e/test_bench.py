# SPDX-License-Identifier: MIT
"""The benches measure something, check what they measure, and say what is wrong with a command line. No time is judged."""
import csv
import json
import re
import subprocess

from harness import BINARY, check, main, path

QUICK = ("--slot", "2M", "--iterations", "3")


def bench(*arguments, code=0):
    """Runs a bench; its standard output."""
    done = subprocess.run([BINARY, "bench", *arguments], capture_output=True, text=True, timeout=100, check=False)
    check(done.returncode == code, f"bench {arguments} exited with {done.returncode}, not {code}: {done.stderr}")
    return done.stdout if code == 0 else done.stderr


def offered():
    done = subprocess.run([BINARY, "info", "--json"], capture_output=True, check=True)
    return json.loads(done.stdout)["dirty_log"]["backends"]


def dirty_log(*arguments):
    return json.loads(bench("dirty-log", *QUICK, "--json", *arguments))


def check_lane(lane, rows, running=False):
    check([row["dirty"] for row in lane["rows"]] == rows * (2 if running else 1), f"rows of {lane}")
    for row in lane["rows"]:
        took = row["pass_ns"]
        check(0 < took["min"] <= took["median"] <= took["p99"] <= took["max"], f"{took}")
        check(row["ioctls"] or lane["backend"] == "ring", f"{lane['backend']} without an ioctl: {row}")
        check(1 <= row["runs"] <= row["pages"] + row["extra_pages"], f"runs of {row}")
        check(row["walk_ns"]["max"] < took["max"] and row["ioctl_ns"]["max"] < took["max"], f"parts of {row}")
        check(row["longest_ns"]["max"] <= row["ioctl_ns"]["max"], f"longest of {row}")


def test_every_backend():
    result = dirty_log("--dirty", "1,2,4…64,100")
    check([lane["backend"] for lane in result["lanes"]] == offered(), "lanes are not what the host has")
    for lane in result["lanes"]:
        check_lane(lane, [1, 2, 4, 8, 16, 32, 64, 100])
    check(result["host"]["kernel"] and result["host"]["kvm"], "no host")


def test_many_ways():
    result = dirty_log("--dirty", "7,512", "--chunk", "64,512", "--clear-ranges", "narrow,whole,split", "--backend",
                       "clear", "--slots", "3", "--vcpus", "2", "--vcpus-running", "--pattern", "random",
                       "--iterations", "1")
    ways = [(lane["chunk"], lane["ranges"]) for lane in result["lanes"]]
    check(ways == [(chunk, ranges) for chunk in (64, 512) for ranges in ("narrow", "whole", "split")], f"{ways}")
    for lane in result["lanes"]:
        check_lane(lane, [7, 512], running=True)
        check(all(row["pages"] == 3 * row["dirty"] for row in lane["rows"]), "pages of 3 slots")
    # All 512 pages of 3 slots: one ioctl for each slot, against one for each word.
    count = {way: lane["rows"][1]["ioctls"] for way, lane in zip(ways, result["lanes"])}
    check(count[(512, "whole")] == 6 and count[(64, "whole")] == 27, f"ioctls {count}")


def test_patterns_and_backings():
    for pattern in ("spread", "cluster", "random"):
        for backing in ("anon", "memfd", "thp"):
            result = dirty_log("--pattern", pattern, "--backing", backing, "--dirty", "64", "--backend", "get")
            row = result["lanes"][0]["rows"][0]
            want = {"spread": 64, "cluster": 4}.get(pattern, row["runs"])
            if not row["extra_pages"]:
                check(row["runs"] == want, f"{pattern} gave {row['runs']} runs")


def test_ring_that_runs_full():
    if "ring" not in offered():
        return
    row = dirty_log("--dirty", "512", "--backend", "ring", "--ring-entries", "256")["lanes"][0]["rows"][0]
    check(row["ring_full"] >= 3, f"512 pages in a ring of 256 entries, full {row['ring_full']} times")


def test_text_and_csv():
    text = bench("dirty-log", *QUICK, "--dirty", "1..64")
    check(re.match(r"host: Linux \S+, kvm", text), f"no host line: {text[:200]}")
    check(text.count("the pass") == len(offered()), f"{text}")
    check(max(map(len, text.splitlines())) <= 132, "lines too long for a mail")
    rows = list(csv.DictReader(bench("dirty-log", *QUICK, "--dirty", "1..64", "--csv").splitlines()))
    check(len(rows) == 7 * len(offered()) and int(rows[0]["pass_ns_median"]) > 0, f"{rows[:1]}")
    check(None not in rows[0] and None not in rows[0].values(), "a CSV line does not fit its header")
    text = bench("dirty-log", "--preset", "framebuffer", "--iterations", "1")
    check(re.search(r"^ +576 ", text, re.M) and "16.0 MiB" in text, f"{text}")


def test_switching():
    result = json.loads(bench("dirty-log", "--enable", "2M,4M", "--iterations", "3", "--json", "--vcpus-running"))
    sizes = [lane["slot_bytes"] for lane in result["lanes"]]
    check(sizes == [2 << 20, 4 << 20] * len(offered()), f"{sizes}")
    check(all(lane["enable_ns"]["min"] and lane["disable_ns"]["min"] for lane in result["lanes"]), "no time")
    check("touched" in bench("dirty-log", "--enable", "2M", "--iterations", "1"), "no table")
    check("touched_bytes" in bench("dirty-log", "--enable", "2M", "--iterations", "1", "--csv"), "no CSV")


def test_compare():
    before = path("before.json")
    with open(before, "w", encoding="utf-8") as file:
        file.write(bench("dirty-log", *QUICK, "--dirty", "1..16", "--backend", "get", "--json"))
    result = dirty_log("--dirty", "1..16", "--backend", "get", "--compare", before)
    check(all(row["ratio"] > 0 for row in result["lanes"][0]["rows"]), "no ratios")
    text = bench("dirty-log", *QUICK, "--dirty", "1..16", "--backend", "get", "--compare", before)
    check("ratio" in text, f"{text}")
    check("no row of this run" in bench("dirty-log", *QUICK, "--dirty", "3", "--compare", before, code=1), "")
    with open(before, "w", encoding="utf-8") as file:
        file.write('{"bench": "other"}')
    check("no output of" in bench("dirty-log", *QUICK, "--compare", before, code=1), "")


def test_bad_lines():
    for arguments, code, line in (
            (("--slot", "2M", "--dirty", "513"), 2, r"a slot has only 512 pages: --slot 2052K"),
            (("--dirty", "4,2"), 2, r"must ascend"),
            (("--dirty", "0"), 2, r"least is 1"),
            (("--slot", "0"), 2, r"multiple of 4K"),
            (("--chunk", "100"), 2, r"multiple of 64"),
            (("--backend", "get,none"), 2, r"write get, clear or ring"),
            (("--clear-ranges", "wide"), 2, r"narrow, whole or split"),
            (("--pattern", "dots"), 2, r"spread, cluster or random"),
            (("--ring", "1"), 2, r"--ring-entries"),
            (("--ring-entries", "0"), 2, r"power of two"),
            (("--ring-entries", "1024", "--backend", "get"), 2, r"belongs to --backend ring"),
            (("--preset", "1999"), 2, r"2012, framebuffer or ram"),
            (("--preset", "ram", "--slot", "1G"), 2, r"leave out"),
            (("--enable", "2M", "--dirty", "1"), 2, r"leave out"),
            (("--json", "--csv"), 2, r"choose one"),
            (("--slots", "0"), 2, r"at least 1"),
            (("--slot", "1024G"), 1, r"choose fewer"),
            (("--slot", "2M", "--compare", "/nonexistent"), 1, r"No such file"),
            (("operand",), 2, r"no operand"),
    ):
        said = bench("dirty-log", *arguments, code=code)
        check(re.search(line, said) and said.count("\n") == 1, f"{arguments}: {said}")
    if "ring" in offered():
        said = bench("dirty-log", "--slot", "2M", "--ring-entries", "300", code=1)
        check("power of two from" in said, said)


if __name__ == "__main__":
    main(test_every_backend, test_many_ways, test_patterns_and_backings, test_ring_that_runs_full, test_text_and_csv,
         test_switching, test_compare, test_bad_lines)
