#!/bin/sh
# SPDX-License-Identifier: MIT
# Which floor may include which (docs/architecture.md). Reads every #include of the tree; prints each that crosses
# a line and fails.
set -eu
cd "$(dirname "$0")/.."

bad=0
# check FILES PATTERN REASON: no line of FILES may match PATTERN.
check() {
    hits=$(git ls-files "$1" | xargs -r grep -nE "$2" /dev/null || true)
    if [ -n "$hits" ]; then
        printf '%s\n  %s\n' "$3" "$hits"
        bad=1
    fi
}

inc='^[[:space:]]*#[[:space:]]*include[[:space:]]*'
check 'vmm/base/*.[ch]' "$inc\"(vmm/[^b]|vmm/b[^a]|migrate/|tools/|guest/)" "vmm/base includes libc and itself only:"
check 'vmm/base/*.[ch]' "$inc<(linux/|liburing|libfdt|jansson|xxhash)" "vmm/base includes libc only:"
check 'guest/abi.h' "$inc(\"|<(std[^id]|stdi[^n]))" "guest/abi.h includes <stddef.h> and <stdint.h> only:"
check 'vmm/*.[ch]' "$inc\"(migrate|tools)/" "vmm/ never includes migrate/ or tools/:"
check 'vmm/*.[ch]' "$inc<liburing" "vmm/ does not use io_uring for migration:"
check 'vmm/*.[ch]' "$inc\"guest/(a[^b]|[^a])" "vmm/ knows of the guest only guest/abi.h:"
check 'vmm/device/*.[ch]' "$inc\"vmm/machine" "devices never see the machine:"
check 'migrate/*.[ch]' "$inc\"(vmm/[^b]|vmm/b[^a]|tools/|guest/)" "migrate/ includes vmm/base only:"
check 'migrate/*.[ch]' "$inc<linux/kvm" "migrate/ never sees KVM:"
check 'guest/*.[chS]' "$inc\"(vmm|migrate|tools)/" "the guest stands alone:"
hits=$(git ls-files 'vmm/*.c' 'migrate/*.c' | xargs -r grep -nE '(^|[^_>.[:alnum:]])_?exit\(' /dev/null || true)
if [ -n "$hits" ]; then
    printf 'only tools/ may exit:\n  %s\n' "$hits"
    bad=1
fi
exit $bad
