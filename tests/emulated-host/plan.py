# SPDX-License-Identifier: MIT
"""Which tests run in which emulated host: CTest's own list of the labels kvm and e2e, so that a new test joins by
itself, less the few that would prove nothing there.
"""
import collections
import json
import os
import re
import subprocess
import sys

# The interpreter itself: what CMake found may be a wrapper that chooses one.
PYTHON = os.path.realpath(sys.executable)

# Shadow paging differs in how a write is caught: the dirty log, and a migration that relies on it.
DIRTY_TRACKING = r"kvm\.test_dirty_log.*|kvm\.test_machine|e2e\.memcheck_short"
# Two kernels answer these alike, unless KVM breaks: what concerns peers, processes and the command line, not the guest.
# (And the full selftest, whose parts are kvm tests.) Each runs on one of them, so that both take about as long.
ON_6_12 = r"e2e\.(bench_pause|framebuffer|gdb|kill|network|selftest|snapshot)|kvm\.test_dirty_log_oracle"
ON_6_1 = r"e2e\.(bad_peers|bench|bench_migrate|cli|compare_qemu|control|qmp|record|resolve|trace)"
EVERYTHING = os.environ.get("PAGEFERRY_EMULATED_FULL")

# An emulated CPU without AVX is faster; one host has it, so that its state is saved and restored there too.
NO_AVX = "max,la57=off,avx=off,avx2=off"
# (A fifth level of page tables costs much and proves nothing.)
WITH_AVX = "max,la57=off"

# Guests that live on interrupts need a host with one CPU: README.md, "What the emulated CPU gets wrong".
LINUX = r"e2e\.linux"

# kvm_amd: options of the module; cpus: the emulated host's; tests: a pattern of their names.
Variant = collections.namedtuple("Variant", "kernel kvm_amd cpu cpus tests")
VARIANTS = {
    "6.12": Variant("6.12", "", NO_AVX, 2, rf"(?!{LINUX}$).*" if EVERYTHING else rf"(?!({ON_6_1}|{LINUX})$).*"),
    "6.1": Variant("6.1", "", WITH_AVX, 2, rf"(?!{LINUX}$).*" if EVERYTHING else rf"(?!({ON_6_12}|{LINUX})$).*"),
    "6.12-npt0": Variant("6.12", "npt=0", NO_AVX, 2, rf"(?!{LINUX}$).*" if EVERYTHING else DIRTY_TRACKING),
    "6.12-linux": Variant("6.12", "", NO_AVX, 1, LINUX),
    "6.1-linux": Variant("6.1", "", WITH_AVX, 1, LINUX),
}
# Kernel 6.1 with one CPU hangs now and then under a Linux guest (README.md): no verdict for an ordinary run.
ONLY_IN_FULL = () if EVERYTHING else ("6.1-linux",)
ORDINARY = tuple(variant for variant in VARIANTS if variant not in ONLY_IN_FULL)

NOT_INSIDE = {
    "e2e.bench_bitmap": "needs no KVM: it runs outside everywhere",
    "e2e.bench_engine": "needs no KVM: it runs outside everywhere",
    "e2e.compare_qemu_engine": "needs no KVM: it runs outside everywhere",
    "e2e.compare_qemu_logic": "needs no KVM: it runs outside everywhere",
    "e2e.docs": "needs man and no KVM: what it says of the documents is the same everywhere",
    "e2e.plot": "needs no KVM: it runs outside everywhere",
    "e2e.guest_qemu": "needs QEMU, which tests the guest and not pageferry",
}

# Everything takes longer on emulated CPUs; the limit of a test inside is that of the test outside times this.
SLOWER = 3
# What tests repeat to be sure, they repeat a fifth as often here: an ordinary run does it in full.
EFFORT_PERCENT = "20"
# Of one variant with all its tests, and what CTest allows for it on a machine for which the limits were scaled up.
SUITE_LIMIT_S = 1500
CTEST_LIMIT_S = 7200


def scale():
    return float(os.environ.get("PAGEFERRY_EMULATED_SCALE", "1"))


def _properties(test):
    return {item["name"]: item["value"] for item in test.get("properties", [])}


def tests(build, ctest="ctest"):
    """Every test that belongs inside: name, command, directory, environment, limit_s."""
    shown = subprocess.run([ctest, "--test-dir", build, "--show-only=json-v1", "-L", "^(kvm|e2e)$",
                            "-LE", "^(soak|emulated-host)$"], capture_output=True, text=True, check=True)
    found = []
    for test in json.loads(shown.stdout)["tests"]:
        if test["name"] in NOT_INSIDE:
            continue
        properties = _properties(test)
        environment = {"PAGEFERRY_TEST_EFFORT": os.environ.get("PAGEFERRY_TEST_EFFORT", EFFORT_PERCENT)}
        environment.update(item.split("=", 1) for item in properties.get("ENVIRONMENT", []))
        command = test.get("command", [])
        if command and os.path.basename(command[0]).startswith("python3"):
            command[0] = PYTHON
        found.append({"name": test["name"], "command": command,
                      "directory": properties["WORKING_DIRECTORY"], "environment": environment,
                      "limit_s": int(properties["TIMEOUT"] * SLOWER * scale())})
    return found


def chosen(variant, found):
    return [test for test in found if re.fullmatch(VARIANTS[variant].tests, test["name"])]
