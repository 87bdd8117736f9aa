# SPDX-License-Identifier: MIT
"""The parts of tools/compare-qemu."""
