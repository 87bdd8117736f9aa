# SPDX-License-Identifier: MIT
"""What Linux guests and the emulated host are made of and is not ours: Debian's kernels and its static busybox. They are downloaded with
apt-get and unpacked, never installed, and kept in a cache directory: a second run needs no network.
"""
import fcntl
import os
import shutil
import subprocess

# Debian 12's own kernel and the newer one of its security archive, each by the package that names the latest.
KERNELS = {"6.1": "linux-image-cloud-amd64", "6.12": "linux-image-6.12-cloud-amd64"}
BUSYBOX = "busybox-static"


class Unavailable(Exception):
    """A line for the user: what could not be had, and what to do."""


def _apt(cache, tool, *arguments, lists=None):
    """Runs an apt tool in the cache directory; lists is a directory with package lists of our own."""
    options = ["-o", "APT::Sandbox::User=root"]
    if lists:
        options += ["-o", f"Dir::State={lists}", "-o", f"Dir::Cache={lists}/cache", "-o", "Dir::State::status=/dev/null"]
    return subprocess.run([tool, *options, *arguments], cwd=cache, capture_output=True, text=True, check=False)


def _download(cache, package, lists):
    """The path of the .deb that was downloaded, or None and what apt said."""
    name = package
    if package in KERNELS.values():
        shown = _apt(cache, "apt-cache", "depends", "--important", package, lists=lists)
        wanted = [line.split()[1] for line in shown.stdout.splitlines() if "Depends: linux-image" in line]
        if not wanted:
            return None, shown.stderr or f"no package {package}"
        name = wanted[0]
    into = os.path.join(cache, f"{package}.part")
    shutil.rmtree(into, ignore_errors=True)
    os.makedirs(into)
    done = _apt(into, "apt-get", "download", "-qq", name, lists=lists)
    found = [os.path.join(into, file) for file in os.listdir(into) if file.endswith(".deb")]
    if done.returncode or not found:
        return None, done.stderr
    return found[0], ""


def _fetch(cache, package):
    """The directory in which the package lies unpacked. Hosts that start together fetch one after another."""
    os.makedirs(cache, exist_ok=True)
    with open(os.path.join(cache, "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return _fetch_alone(cache, package)


def _fetch_alone(cache, package):
    unpacked = os.path.join(cache, package)
    if os.path.isdir(unpacked):
        return unpacked
    if not shutil.which("apt-get"):
        raise Unavailable(f"this needs Debian's package {package}, and there is no apt-get here to fetch "
                          f"it: unpack it with dpkg -x into {unpacked}")
    print(f"downloading {package}", flush=True)
    deb, said = _download(cache, package, None)
    if not deb:
        # The machine's package lists are missing or old: newer ones, beside them, need no privilege.
        lists = os.path.join(cache, "apt")
        os.makedirs(os.path.join(lists, "lists/partial"), exist_ok=True)
        os.makedirs(os.path.join(lists, "cache/archives/partial"), exist_ok=True)
        updated = _apt(cache, "apt-get", "update", "-qq", "-o", "APT::Update::Error-Mode=any", lists=lists)
        deb, said = _download(cache, package, lists)
        said = updated.stderr if updated.returncode and not deb else said
    if not deb:
        why = (said.strip().splitlines() or ["no reason given"])[-1]
        raise Unavailable(f"this needs Debian's package {package}, which apt-get could not download "
                          f"({why}): is this machine offline, or has it no Debian 12 sources with the security "
                          f"archive? A copy unpacked with dpkg -x into {unpacked} will do")
    into = os.path.dirname(deb)
    subprocess.run(["dpkg-deb", "-x", deb, os.path.join(into, "tree")], check=True)
    os.rename(os.path.join(into, "tree"), unpacked)
    shutil.rmtree(into)
    return unpacked


def kernel(cache, name):
    """(path of the kernel image, directory of its modules)"""
    tree = _fetch(cache, KERNELS[name])
    releases = os.listdir(os.path.join(tree, "lib/modules"))
    return os.path.join(tree, "boot", f"vmlinuz-{releases[0]}"), os.path.join(tree, "lib/modules", releases[0])


def busybox(cache):
    return os.path.join(_fetch(cache, BUSYBOX), "bin/busybox")
