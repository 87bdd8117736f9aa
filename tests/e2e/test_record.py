# SPDX-License-Identifier: MIT
"""`migrate --record-dirty`: what the file holds is what the migration says it did; and no recording harms a migration."""
import os
import resource
import shutil
import subprocess
import sys

from harness import BINARY, Control, check, finish, main, migrate, migrate_well, path, receive, run, wait_until
from recording import read

SLOWLY = ("--max-bandwidth", "24M")
WORKLOAD = "dirty set=16M rate=3000 fill=unique"


def same_rounds(rounds, result):
    """The recorded rounds are the first ones of the result's."""
    recorded = [sum(bits.bit_count() for bits in bitmaps) for bitmaps in rounds]
    told = [r["dirty_pages"] for r in result["rounds"]][:len(recorded)]
    check(recorded == told, f"recorded {recorded}, told {told}")


def migrate_recorded(*options):
    source, control = run(WORKLOAD, options=("--framebuffer",))
    target, _, uri = receive()
    client = Control(control)
    layout = [(r["gpa"], r["bytes"] // 4096) for r in client.command("x-memory-map")["regions"]]
    result = migrate_well(control, uri, *SLOWLY, "--record-dirty", path("record"), *options)
    check(result["recording"] == {"path": path("record"), "rounds": len(result["rounds"])}, f"{result['recording']}")
    client.command("quit")
    source.expect_exit(0)
    finish(target)
    return layout, result


def test_is_what_was_told():
    for backend in "get", "auto":
        layout, result = migrate_recorded("--dirty-log", backend)
        regions, rounds = read(path("record"))
        check(regions == layout, f"regions {regions}, not {layout}")
        check(len(rounds) == len(result["rounds"]) >= 2, f"{len(rounds)} rounds")
        same_rounds(rounds, result)
        # 16 MiB of it are unique words, and nobody ever drew on the frame buffer.
        check(rounds[0][0].bit_count() >= 4096 and not any(bitmaps[1] for bitmaps in rounds), "round 0")
        print(f"  {result['dirty_log']}: {[r['dirty_pages'] for r in result['rounds']]} pages, "
              f"{os.path.getsize(path('record'))} bytes")


def test_the_name_is_the_callers():
    """The source's directory is another one."""
    source, control = run("idle")
    target, _, uri = receive()
    os.mkdir(path("here"))
    done = subprocess.run([BINARY, "migrate", "--control", control, "--record-dirty", "record", uri], cwd=path("here"),
                          capture_output=True, check=False)
    check(done.returncode == 0 and b"rounds in " + path("here/record").encode() in done.stdout, f"{done}")
    read(path("here/record"))
    check(os.listdir(path("here")) == ["record"], f"left: {os.listdir(path('here'))}")
    source.kill()
    finish(target)


def test_the_directory_goes():
    """The file can no longer take its place: the guest moves all the same."""
    source, control = run(WORKLOAD)
    target, _, uri = receive()
    os.mkdir(path("gone"))
    client = Control(control)
    client.command("migrate-set-parameters", **{"max-bandwidth": 24 << 20})
    client.command("migrate", uri=uri, **{"x-record-dirty": path("gone/record")})
    wait_until(lambda: os.listdir(path("gone")), "the file under construction")
    shutil.rmtree(path("gone"))
    wait_until(lambda: client.command("query-migrate")["status"] == "completed", "the end of the migration")
    recording = client.command("query-migrate")["x-pageferry"]["recording"]
    check(recording["rounds"] == 0 and "No such file" in recording["error"], f"{recording}")
    client.command("quit")
    source.expect_exit(0)
    check(source.err.count(b"recording to") == 1, f"not logged once: {source.err}")
    finish(target)


def test_a_full_disk():
    source, control = run(WORKLOAD)
    target, _, uri = receive()
    with open(path("record"), "wb") as file:
        file.write(b"of yesterday")
    resource.prlimit(source.pid, resource.RLIMIT_FSIZE, (64, 64))
    result = migrate_well(control, uri, *SLOWLY, "--record-dirty", path("record"))
    check(result["recording"]["rounds"] == 0 and "File too large" in result["recording"]["error"], f"{result}")
    source.kill()
    check(source.err.count(b"recording to") == 1, f"not logged once: {source.err}")
    with open(path("record"), "rb") as file:
        check(file.read() == b"of yesterday", "what was there is gone")
    check(not [name for name in os.listdir(path("")) if ".part" in name], "something was left behind")
    finish(target)


def test_a_failed_migration_keeps_whole_rounds():
    """It fails in a round, which is left out."""
    source, control = run("dirty set=16M fill=unique")
    target, _, uri = receive()
    client = Control(control)
    # More is dirtied than can be sent: it never converges.
    client.command("migrate-set-parameters", **{"max-bandwidth": 24 << 20, "x-downtime-limit-ns": 1})
    client.command("migrate", uri=uri, **{"x-record-dirty": path("record")})
    wait_until(lambda: client.command("query-migrate")["x-pageferry"]["round"] >= 2, "round 2")
    target.kill()
    wait_until(lambda: client.command("query-migrate")["status"] == "failed", "the failure")
    result = client.command("query-migrate")["x-pageferry"]
    _, rounds = read(path("record"))
    check(len(rounds) == result["recording"]["rounds"] == len(result["rounds"]) - 1 >= 2, f"{result}")
    same_rounds(rounds, result)
    # The next attempt has one of its own.
    target, _, uri = receive()
    client.command("migrate-set-parameters", **{"max-bandwidth": 0, "x-downtime-limit-ns": 2000000000})
    client.command("migrate", uri=uri)
    wait_until(lambda: client.command("query-migrate")["status"] == "completed", "the end of the migration")
    check("recording" not in client.command("query-migrate")["x-pageferry"], "a recording that nobody asked for")
    source.kill()
    finish(target)


def test_bad_places():
    source, control = run("idle")
    target, _, uri = receive()
    for place, said in ((path("no/such"), "No such file"), (path(""), "not a regular file"),
                        ("/dev/null", "not a regular file")):
        code, result, err = migrate(control, uri, "--record-dirty", place)
        check(code == 1 and said in err and place in err, f"{place}: {code} {err}")
        check(set(result) == {"status", "error"}, f"a migration began: {result}")
    for options in (("--record-dirty", ""), ("--check", "--record-dirty", path("record"))):
        code, _, err = migrate(control, uri, *options)
        check(code == 2 and "--record-dirty" in err, f"{options}: {code} {err}")
    client = Control(control)
    client.refused("migrate", uri=uri, **{"x-record-dirty": 1})
    client.refused("migrate", uri=uri, **{"x-record-dirty": path("record"), "x-check": True})
    # Nobody answers there: the migration fails before a round, and there is no file.
    code, result, _ = migrate(control, f"unix:{path('nobody')}", "--record-dirty", path("record"))
    check(code == 1 and "no round" in result["recording"]["error"], f"{result}")
    check(not [name for name in os.listdir(path("")) if name.startswith("record")], "something was left behind")
    check(client.status() == "running", client.status())
    source.kill()
    target.kill()


if __name__ == "__main__":
    if not shutil.which("zstd"):
        print("SKIP: no zstd command to read recordings with")
        sys.exit(77)
    main(test_is_what_was_told, test_the_name_is_the_callers, test_the_directory_goes, test_a_full_disk,
         test_a_failed_migration_keeps_whole_rounds, test_bad_places)
