# SPDX-License-Identifier: MIT
"""What tools/linux-guest is made of; the emulated host of the tests uses it too."""
