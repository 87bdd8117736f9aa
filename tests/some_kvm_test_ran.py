#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fails, with a line, if none of these ctest JUnit files has a test of label kvm that really ran, on this host's KVM or
in an emulated host. Silent otherwise. (Of e2e some need no KVM.)
"""
import re
import sys
import xml.etree.ElementTree as tree

ran = [case for file in sys.argv[1:] for case in tree.parse(file).getroot().iter("testcase")
       if re.match(r"(emulated\..*\.)?kvm\.", case.get("name", "")) and case.find("skipped") is None
       and case.get("status") == "run"]
if not ran:
    sys.exit("no KVM test ran on this machine: is /dev/kvm there and accessible? Does the emulated host boot?")
