# SPDX-License-Identifier: MIT
"""tools/plot draws what bench dirty-log --json prints; of anything else it says in one line what is wrong."""
import copy
import importlib.machinery
import json
import os
import re
import shutil
import subprocess
import sys

from harness import check, main, path

PLOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "plot")
sys.dont_write_bytecode = True
METRICS = ("pass", "page", "parts", "longest", "write")


def row(dirty):
    ns = {"min": 1, "median": 1000 * dirty, "p99": 2, "max": 3}
    return {"dirty": dirty, "vcpus_running": False, "ns_per_page": 7.5, "stall_ns_per_write": 80.5, "pass_ns": ns,
            "longest_ns": ns, "ioctl_ns": ns, "harvest_ns": ns, "walk_ns": ns, "rest_ns": ns}


GOOD = {"bench": "dirty-log", "slots": 1, "pattern": "spread", "backing": "thp",
        "host": {"kernel": "6.1", "kvm": "kvm_amd", "paging": "nested"},
        "lanes": [{"backend": "get", "slot_bytes": 1 << 30, "rows": [row(1), row(16)]},
                  {"backend": "clear", "chunk": 64, "ranges": "narrow", "slot_bytes": 1 << 30, "rows": [row(1), row(2)]}]}


def plot(metric, contents):
    with open(path("result.json"), "w", encoding="utf-8") as file:
        file.write(contents if isinstance(contents, str) else json.dumps(contents))
    return subprocess.run([sys.executable, PLOT, metric, path("result.json")], capture_output=True, text=True, timeout=60,
                          check=False)


def refused(contents):
    done = plot("pass", contents)
    check(done.returncode == 1 and not done.stdout, f"{str(contents)[:200]}: status {done.returncode}")
    check(done.stderr.startswith("plot: ") and done.stderr.count("\n") == 1, f"{str(contents)[:200]}: {done.stderr}")


def places(value):
    """Every place of a JSON value, as keys from the top."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (key,)
        yield from ((key, *rest) for rest in places(inner))


def test_bad_files():
    for text in ("", "{", "[]", "7", "null", "{}", '{"bench": "bitmap"}', "[" * 100000):
        refused(text)
    done = subprocess.run([sys.executable, PLOT, "pass", path("nowhere")], capture_output=True, text=True, check=False)
    check(done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr)


def test_damage():
    """Whatever one value is replaced with: a script of nothing but our lines, or an error that becomes one line."""
    plotter = importlib.machinery.SourceFileLoader("plot", PLOT).load_module()
    ours = re.compile(r"set [^\\`$]*|plot [^\\`]*|\$d\d+ << E|E|[\d.e+-]+ [\d.e+-]+")
    drawn = 0
    for where in places(GOOD):
        for wrong in (None, [], {}, "E\nsystem 'touch harm'", "' x `touch harm` $(touch harm) \"", -1, 1e400):
            damaged = copy.deepcopy(GOOD)
            at = damaged
            for key in where[:-1]:
                at = at[key]
            at[where[-1]] = wrong
            try:
                script = plotter.script(damaged, "pass")
            except plotter.DAMAGE:
                continue
            drawn += 1
            for line in script.splitlines():
                check(ours.fullmatch(line) and line.count("'") % 2 == 0, f"{where}: {wrong}: {line}")
    check(drawn > 0, "nothing was ever drawn")


def test_every_metric():
    for metric in METRICS:
        done = plot(metric, GOOD)
        if shutil.which("gnuplot"):
            check(done.returncode == 0 and "<svg" in done.stdout and not done.stderr, f"{metric}: {done.stderr}")
        else:
            check(done.returncode == 1 and "install-deps plot" in done.stderr, f"{metric}: {done.stderr}")


if __name__ == "__main__":
    main(test_bad_files, test_damage, test_every_metric, kvm=False)
