# SPDX-License-Identifier: MIT
"""pageferry bench pause: what it prints is complete and consistent; bad options get one line. No time is judged."""
import json
import re
import subprocess

from harness import BINARY, check, main


def bench(*arguments):
    done = subprocess.run([BINARY, "bench", "pause", *arguments], capture_output=True, text=True, timeout=100, check=False)
    return done.returncode, done.stdout, done.stderr


def check_summary(name, value):
    check(set(value) == {"min", "median", "max"}, f"{name}: {value}")
    check(0 < value["min"] <= value["median"] <= value["max"], f"{name}: {value}")


def test_json():
    code, out, err = bench("--cpus", "3", "--repeat", "5", "--json")
    check(code == 0 and not err, f"{code}: {err}")
    result = json.loads(out)
    check((result["bench"], result["cpus"], result["repeat"]) == ("pause", 3, 5), out)
    check(result["host"]["kernel"] and result["version"], out)
    for name in ("together_ns", "in_turn_ns", "ratio"):
        check_summary(name, result[name])
    together, in_turn, ratio = result["together_ns"], result["in_turn_ns"], result["ratio"]
    check(together["min"] / in_turn["max"] - 1e-6 <= ratio["min"], out)
    check(ratio["max"] <= together["max"] / in_turn["min"] + 1e-6, out)


def test_table():
    code, out, err = bench("--cpus", "2", "--repeat", "1")
    check(code == 0 and not err, f"{code}: {err}")
    check("Pausing 2 busy vCPUs, 1 pairs" in out, out)
    for title in ("together, µs", "one after the other, µs", "together / one after the other"):
        row = re.search(rf"^{re.escape(title)} +(\d+\.\d+) +(\d+\.\d+) +(\d+\.\d+)$", out, re.M)
        check(row and len(set(row.groups())) == 1, f"one pair has one value: {out}")


def test_bad_options():
    for arguments, line in ((("--cpus", "1"), "takes 2 at least"), (("--cpus", "17"), "--cpus"),
                            (("--repeat", "0"), "1 is the least"), (("x",), "no operand: 'x'"),
                            (("--nosuch",), "unknown option --nosuch")):
        code, out, err = bench(*arguments)
        check(code == 2 and not out and err.count("\n") == 1 and line in err, f"{arguments}: {code}, {out!r}, {err!r}")


if __name__ == "__main__":
    main(test_json, test_table, test_bad_options)
