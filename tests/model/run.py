#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Verifies handover.pml with Spin; then each broken variant, in which the error has to be found, and claims that
certain ends never occur, which have to be refuted."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "handover.pml")
# The rule that is left out.
BROKEN = ("BROKEN_RESUME_IN_DOUBT", "BROKEN_RUN_BEFORE_COMMIT", "BROKEN_REVOCABLE_DISCARD",
          "BROKEN_ANSWER_IN_READY", "BROKEN_BLIND_FORCE")
# Ends that must occur, else nothing was verified of them; the claim is that they do not.
REACHED = ("REACHED_MOVED", "REACHED_KEPT_AFTER_QUESTION", "REACHED_MOVED_AFTER_QUESTION")


def call(command, directory):
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def verify(variant, directory):
    """(errors, what Spin printed)"""
    call(["spin", *([f"-D{variant}"] if variant else []), "-a", MODEL], directory)
    call([os.environ.get("CC", "cc"), "-O0", "-w", "-DSAFETY", "-DNOREDUCE", "-o", "pan", "pan.c"], directory)
    text = call(["./pan", "-m100000"], directory)
    errors = re.search(r"errors: (\d+)", text)
    states = re.search(r"(\d+) states, stored", text)
    if not errors or not states or "max search depth too small" in text:
        sys.exit(f"no verdict from Spin:\n{text}")
    print(f"{variant or 'handover'}: {states[1]} states, {errors[1]} errors")
    return int(errors[1]), text


def main():
    if not shutil.which("spin"):
        print("spin is not installed")
        sys.exit(77)
    failed = False
    with tempfile.TemporaryDirectory(prefix="pageferry-model-") as directory:
        errors, text = verify("", directory)
        failed = bool(errors)
        if errors:
            print(text)
        for variant in (*BROKEN, *REACHED):
            errors, text = verify(variant, directory)
            if not errors or "assertion violated" not in text:
                print(f"{variant} must be refuted:\n{text}")
                failed = True
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
