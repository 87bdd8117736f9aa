# SPDX-License-Identifier: MIT
"""The man pages and the completion name every option and every JSON key that the program has, and no other option."""
import json
import os
import re
import subprocess

from harness import BINARY, check, finish, main, migrate_well, path, receive, run

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
COMMANDS = ("run", "receive", "migrate", "inspect", "ctl", "info", "selftest")
BENCHES = ("bitmap", "dirty-log", "migrate", "pause")


def page(command):
    """Text of a man page without its markup."""
    with open(f"{TOP}/docs/man/pageferry-{command}.1", encoding="utf-8") as file:
        text = file.read().replace("\\-", "-")
    return re.sub(r"\\f[A-Z]", "", text)


def documented(command, keys):
    text = page(command)
    missing = [key for key in keys if not re.search(rf"(?<![\w-]){re.escape(key)}(?![\w-])", text)]
    check(not missing, f"pageferry-{command}(1) does not tell of {missing}")


def test_options():
    with open(f"{TOP}/docs/completion/pageferry", encoding="utf-8") as file:
        completion = file.read()
    for command in COMMANDS + tuple(f"bench {bench}" for bench in BENCHES):
        name, *bench = command.split()
        shown = subprocess.run([BINARY, name, *bench, "--help"], capture_output=True, text=True, check=True).stdout
        options = set(re.findall(r"^ +(?:-\w, |--[a-z]+, )?(--[a-z-]+)", shown, re.M))
        options |= set(re.findall(r"^ +(--[a-z]+), --", shown, re.M))
        if command == "ctl":
            options = {"--control", "--json"}
        documented(name, options)
        section = f".SH OPTIONS OF {bench[0].upper()}\n" if bench else ".SH OPTIONS\n"
        told = set(re.findall(r"^\.(?:B|BI|BR) .*?(--[a-z-]+)", page(name).split(section)[1].split(".SH")[0], re.M))
        check(told >= options, f"pageferry-{name}(1), {section.strip()} lacks {options - told}")
        done = subprocess.run(
            ["bash", "-c", 'source "$1"; _pageferry_options "$2"', "bash", f"{TOP}/docs/completion/pageferry", command],
            capture_output=True, text=True, check=True)
        completed = set(done.stdout.split()) - {"--help"}
        check(completed == options, f"completion of {command}: {completed ^ options}")
    check("complete -F" in completion, "nothing is completed")
    shown = subprocess.run([BINARY, "bench", "--help"], capture_output=True, text=True, check=True).stdout
    check(set(re.findall(r"^  ([a-z-]+) ", shown, re.M)) == set(BENCHES), f"other benches: {shown}")


def keys_of(value):
    """Keys at every depth."""
    if isinstance(value, list):
        return set().union(*map(keys_of, value))
    if isinstance(value, dict):
        return set(value).union(*map(keys_of, value.values()))
    return set()


def test_keys():
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        print("  not tested: it runs guests, and there is no /dev/kvm")
        return
    _, control = run("idle")
    target, _, uri = receive(options=("--json",))
    documented("migrate", keys_of(migrate_well(control, uri)))
    finish(target)
    line = next(line for line in target.err.decode().splitlines() if line.startswith("{"))
    documented("receive", keys_of(json.loads(line)))
    _, control = run("idle", "16M")
    migrate_well(control, f"file:{path('keys.snap')}")
    done = subprocess.run([BINARY, "inspect", "--json", path("keys.snap")], capture_output=True, check=True)
    documented("inspect", keys_of({**json.loads(done.stdout), "machine": None}))
    done = subprocess.run([BINARY, "info", "--json"], capture_output=True, check=True)
    documented("info", keys_of(json.loads(done.stdout)))
    done = subprocess.run([BINARY, "selftest", "--quick", "--json"], capture_output=True, check=True)
    documented("selftest", keys_of(json.loads(done.stdout)))
    done = subprocess.run([BINARY, "bench", "bitmap", "--iterations", "1", "--json"], capture_output=True, check=True)
    documented("bench", keys_of(json.loads(done.stdout)))
    done = subprocess.run([BINARY, "bench", "pause", "--cpus", "2", "--repeat", "1", "--json"], capture_output=True,
                          check=True)
    documented("bench", keys_of(json.loads(done.stdout)))
    before = path("before.json")
    for more in ((), ("--compare", before)):
        done = subprocess.run([BINARY, "bench", "dirty-log", "--slot", "1M", "--dirty", "1", "--iterations", "1", "--json",
                               *more], capture_output=True, check=True)
        result = json.loads(done.stdout)
        with open(before, "wb") as file:
            file.write(done.stdout)
        for lane in result["lanes"]:
            lane["kvm_stats"] = None  # whose keys are KVM's
        documented("bench", keys_of(result))
    failed = subprocess.run([BINARY, "migrate", "--json", "--control", control + ".nosuch", uri], capture_output=True,
                            check=False)
    check(failed.returncode == 1 and set(json.loads(failed.stdout)) == {"status", "error"}, f"{failed}")


def test_pages_are_well_formed():
    for name in ["pageferry", "pageferry-bench"] + [f"pageferry-{command}" for command in COMMANDS]:
        try:
            done = subprocess.run(["man", "--warnings", "-l", f"{TOP}/docs/man/{name}.1"], capture_output=True,
                                  text=True, check=False, env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"})
        except FileNotFoundError:
            print("no man here")
            return
        check(done.returncode == 0 and not done.stderr, f"{name}(1): {done.stderr[:300]}")


if __name__ == "__main__":
    main(test_options, test_keys, test_pages_are_well_formed, kvm=False)
