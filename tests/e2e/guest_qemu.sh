#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The very same guest image boots under QEMU: usage guest_qemu.sh ELF. QEMU's isa-debug-exit makes
# its exit status (code << 1) | 1. KVM where it can be had, else QEMU's own emulation.
set -eu

elf=$1
out=$(mktemp)
trap 'rm -f "$out"' EXIT

if ! command -v qemu-system-x86_64 >/dev/null; then
    echo "skipped: no qemu-system-x86_64 (Debian: qemu-system-x86)"
    exit 77
fi
if [ -r /dev/kvm ] && [ -w /dev/kvm ]; then
    accel="-accel kvm -cpu host"
else
    accel="-accel tcg"
fi

# boot MEMORY CPUS COMMAND CODE TEXT: the guest must print TEXT and end with CODE. Typing the finish
# byte is up to whoever pipes something in.
boot() {
    status=0
    # shellcheck disable=SC2086
    timeout 60 qemu-system-x86_64 -M microvm $accel -m "$1" -smp "$2" -nodefaults -no-user-config \
        -display none -serial stdio -no-reboot -device isa-debug-exit,iobase=0xf4,iosize=4 \
        -kernel "$elf" -append "$3" >"$out" || status=$?
    if [ "$status" -ne $(($4 << 1 | 1)) ]; then
        echo "FAILED: \"$3\" with $1 and $2 CPUs: QEMU's status is $status, not $(($4 << 1 | 1))"
        cat "$out"
        exit 1
    fi
    if ! grep -q -- "$5" "$out"; then
        echo "FAILED: \"$3\" with $1 and $2 CPUs: no line has \"$5\""
        cat "$out"
        exit 1
    fi
    echo "ok: \"$3\" with $1 and $2 CPUs"
}

for memory in 32M 512M 5G; do
    boot $memory 1 "hello" 0 "hello from the pageferry test guest" </dev/null
done
boot 64M 1 "" 0 "device tree no" </dev/null
boot 64M 2 "hello cpus=2" 0 "cpus 2" </dev/null
boot 64M 1 "hello fault=pf" 40 "exception #PF .* in ring 3" </dev/null
boot 64M 1 "hello colour=red" 32 "unknown parameter" </dev/null
boot 64M 1 "juggle" 32 "no workload" </dev/null
boot 64M 1 "counter" 33 "no probe device" </dev/null
boot 64M 1 "dirty set=1G" 34 "are free" </dev/null
boot 64M 2 "idle cpus=2 seconds=1 fill=all" 0 "idle: OK" </dev/null
boot 64M 2 "dirty cpus=2 seconds=1 rate=1000 pattern=zipf" 0 "dirty: OK" </dev/null
boot 64M 2 "memcheck cpus=2 seconds=1" 0 "memcheck: OK" </dev/null
# A guest that checks itself must be seen to find what is wrong.
boot 64M 2 "memcheck cpus=2 seconds=1 sabotage=word" 41 "memcheck: FAULT" </dev/null
boot 64M 2 "memcheck cpus=2 seconds=1 sabotage=stale" 41 "memcheck: FAULT" </dev/null
boot 64M 2 "memcheck cpus=2 seconds=1 sabotage=table" 41 "memcheck: FAULT" </dev/null
# The finish byte is seen whenever it comes.
printf q | boot 64M 1 "memcheck set=4M" 0 "memcheck: OK"
printf 'to and fro\nq' | boot 64M 1 "echo" 0 "to and fro"
