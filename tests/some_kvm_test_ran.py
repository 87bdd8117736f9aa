#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fails, with a line, if a ctest JUnit file has no test of label kvm or e2e that really ran, on this host's KVM or in an
emulated host. Silent otherwise.
"""
import re
import sys
import xml.etree.ElementTree as tree

ran = [case for case in tree.parse(sys.argv[1]).getroot().iter("testcase")
       if re.match(r"(emulated\..*\.)?(kvm|e2e)\.", case.get("name", "")) and case.find("skipped") is None
       and case.get("status") == "run"]
if not ran:
    sys.exit("no KVM test ran on this machine: is /dev/kvm there and accessible? Does the emulated host boot?")
