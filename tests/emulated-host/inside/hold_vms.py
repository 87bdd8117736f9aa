# SPDX-License-Identifier: MIT
"""Keeps two idle VMs open while the tests run. KVM patches its own code when the first or last VM of a kind comes or
goes (static keys: any VM, a vCPU without a local APIC, an APIC that is disabled), and the emulated CPUs oopsed in that
once. With one VM of each kind always there, nothing is ever patched. Prints "held" and sleeps.
"""
import fcntl
import os
import struct
import sys
import time

# Documentation/virt/kvm/api.rst; numbers of <linux/kvm.h>.
KVM_CREATE_VM = 0xAE01
KVM_CREATE_VCPU = 0xAE41
KVM_CREATE_IRQCHIP = 0xAE60
KVM_GET_SREGS = 0x8138AE83
KVM_SET_SREGS = 0x4138AE84
SREGS_SIZE = 312
APIC_BASE_AT = 272
APIC_BASE_ENABLE = 1 << 11

kvm = os.open("/dev/kvm", os.O_RDWR)
without_apic = fcntl.ioctl(kvm, KVM_CREATE_VM, 0)
fcntl.ioctl(without_apic, KVM_CREATE_VCPU, 0)

with_apic = fcntl.ioctl(kvm, KVM_CREATE_VM, 0)
fcntl.ioctl(with_apic, KVM_CREATE_IRQCHIP, 0)
# Its APIC stays disabled by software, as after reset; the second vCPU's is disabled by hardware too.
fcntl.ioctl(with_apic, KVM_CREATE_VCPU, 0)
vcpu = fcntl.ioctl(with_apic, KVM_CREATE_VCPU, 1)
sregs = bytearray(SREGS_SIZE)
fcntl.ioctl(vcpu, KVM_GET_SREGS, sregs)
base, = struct.unpack_from("<Q", sregs, APIC_BASE_AT)
struct.pack_into("<Q", sregs, APIC_BASE_AT, base & ~APIC_BASE_ENABLE)
fcntl.ioctl(vcpu, KVM_SET_SREGS, sregs)

print("held", flush=True)
sys.stdout.close()
while True:
    time.sleep(3600)
