# SPDX-License-Identifier: MIT
"""pageferry bench bitmap: what it prints is complete and consistent; bad input gets one line. No time is judged."""
import csv
import json
import os
import shutil
import subprocess
import tempfile

from harness import BINARY, check, main

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data")


def bench(*arguments):
    done = subprocess.run([BINARY, "bench", *arguments], capture_output=True, text=True, timeout=200, check=False)
    return done.returncode, done.stdout, done.stderr


def refused(status, part, *arguments):
    """One line on standard error that has `part` in it, and nothing on standard output."""
    code, out, err = bench(*arguments)
    check(code == status and not out and err.count("\n") == 1 and part in err, f"{arguments}: {code}, {out!r}, {err!r}")


def test_bad_input():
    refused(2, "bench needs the name")
    refused(2, "no bench 'nosuch'", "nosuch")
    refused(2, "no operand: 'x'", "bitmap", "x")
    refused(2, "unknown option --nosuch", "bitmap", "--nosuch")
    refused(2, "exclude each other", "bitmap", "--json", "--csv")
    refused(2, "no 'sse2', but", "bitmap", "--path", "sse2")
    refused(2, "the least", "bitmap", "--iterations", "0")
    refused(2, "--iterations", "bitmap", "--iterations", "many")
    refused(1, "No such file", "bitmap", "--corpus", "/nosuch")
    with tempfile.TemporaryDirectory() as corpus:
        refused(1, "no recording (*.dirty)", "bitmap", "--corpus", corpus)
        with open(f"{corpus}/bad.dirty", "wb") as file:
            file.write(b"not a recording")
        refused(1, "bad.dirty", "bitmap", "--corpus", corpus)


def recorded(*arguments):
    code, out, err = bench("bitmap", "--iterations", "1", "--json", "--corpus", *arguments)
    check(code == 0 and not err, err)
    return [case["case"] for case in json.loads(out)["cases"] if case["recorded"]]


def test_one_recording():
    """A file in place of a directory, whatever it is called; its name goes to terminals and tables."""
    with tempfile.TemporaryDirectory() as directory:
        for name, shown in (("plain", "plain"), ("a,b\"c \033[31m\n", "a?b?c??[31m?"), (b"caf\xe9", "caf?")):
            name = os.path.join(os.fsencode(directory), os.fsencode(name))
            shutil.copy(f"{CORPUS}/half.dirty", name)
            check(recorded(name) == [shown], f"{name}: {recorded(name)}")


def test_json():
    code, out, err = bench("bitmap", "--iterations", "2", "--json", "--corpus", CORPUS)
    check(code == 0 and not err, err)
    report = json.loads(out)
    paths = [walk["walk"] for walk in report["cases"][0]["walks"] if walk["yields"] == "runs"]
    check(report["path"] == paths[0] and paths[-1] == "scalar" and report["iterations"] == 2, f"paths {paths}")
    recorded = [f"{case['case']}.dirty" for case in report["cases"] if case["recorded"]]
    check(recorded == sorted(name for name in os.listdir(CORPUS) if name.endswith(".dirty")), f"{recorded}")
    made_up = {(case["case"], case["bitmaps"]): case for case in report["cases"] if not case["recorded"]}
    check({number for _, number in made_up} == {16, 1}, f"{made_up.keys()}")
    check({case["bytes"] for case in made_up.values()} == {512 * 1024}, f"{made_up}")
    for case in report["cases"]:
        walks = case["walks"]
        check([walk["walk"] for walk in walks][:3] == ["byte", "word", "read"], f"{walks}")
        check(len(walks) == 3 + 2 * len(paths), f"{walks}")
        check(all(walk["median_ns"] >= walk["min_ns"] > 0 and walk["over_byte"] > 0 for walk in walks), f"{walks}")
    check(made_up[("empty", 16)]["pages"] == made_up[("empty", 16)]["runs"] == 0, "empty is not")
    check(made_up[("full", 1)]["pages"] == 4194304 and made_up[("full", 16)]["runs"] == 16, "full is not")
    check(made_up[("1%", 1)]["pages"] == 41940, "1% is not")


def test_csv_table_and_path():
    with tempfile.TemporaryDirectory() as corpus:
        shutil.copy(f"{CORPUS}/sparse.dirty", corpus)
        few = ("bitmap", "--iterations", "1", "--path", "scalar", "--corpus", corpus)
        code, out, err = bench(*few, "--csv")
        rows = list(csv.DictReader(out.splitlines()))
        check(code == 0 and "host:" in err, err)
        check({row["walk"] for row in rows} == {"byte", "word", "read", "scalar"}, f"{rows[0]}")
        check([row["case"] for row in rows if row["recorded"] == "1"] == ["sparse"] * 5, "not the one recording")
        code, out, err = bench(*few)
        check(code == 0 and not err and out.startswith("host:") and "measured: scalar\n" in out, out)
        check(out.count("\n  empty ") == 2 and "\n  sparse " in out, out)


if __name__ == "__main__":
    main(test_bad_input, test_one_recording, test_json, test_csv_table_and_path, kvm=False)
