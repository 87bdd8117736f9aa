# SPDX-License-Identifier: MIT
"""XXH3-64 with seed 0, in plain Python: slow, and independent of the library that pageferry uses.

After the specification (xxHash, doc/xxhash_spec.md). The default secret is data of that specification.
"""
import struct

MASK = (1 << 64) - 1
P32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
P64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")


def _u64(data, at):
    return int.from_bytes(data[at:at + 8], "little")


def _u32(data, at):
    return int.from_bytes(data[at:at + 4], "little")


def _swap64(value):
    return int.from_bytes(value.to_bytes(8, "little"), "big")


def _fold(a, b):
    product = a * b
    return (product & MASK) ^ (product >> 64)


def _avalanche(value):
    value ^= value >> 37
    value = value * 0x165667919E3779F9 & MASK
    return value ^ (value >> 32)


def _avalanche64(value):
    value ^= value >> 33
    value = value * P64[1] & MASK
    value ^= value >> 29
    value = value * P64[2] & MASK
    return value ^ (value >> 32)


def _short(data):
    n = len(data)
    if n > 8:
        low = (_u64(SECRET, 24) ^ _u64(SECRET, 32)) ^ _u64(data, 0)
        high = (_u64(SECRET, 40) ^ _u64(SECRET, 48)) ^ _u64(data, n - 8)
        return _avalanche((n + _swap64(low) + high + _fold(low, high)) & MASK)
    if n >= 4:
        value = _u32(data, n - 4) + (_u32(data, 0) << 32)
        value ^= _u64(SECRET, 8) ^ _u64(SECRET, 16)
        turn = [(value << bits | value >> (64 - bits)) & MASK for bits in (49, 24)]
        value ^= turn[0] ^ turn[1]
        value = value * 0x9FB21C651E98DF25 & MASK
        value ^= (value >> 35) + n
        value = value * 0x9FB21C651E98DF25 & MASK
        return value ^ (value >> 28)
    if n:
        value = data[0] << 16 | data[n >> 1] << 24 | data[n - 1] | n << 8
        return _avalanche64(value ^ (_u32(SECRET, 0) ^ _u32(SECRET, 4)))
    return _avalanche64(_u64(SECRET, 56) ^ _u64(SECRET, 64))


def _mix16(data, at, secret):
    return _fold(_u64(data, at) ^ _u64(SECRET, secret), _u64(data, at + 8) ^ _u64(SECRET, secret + 8))


def _middle(data):
    n = len(data)
    acc = n * P64[0] & MASK
    if n <= 128:
        for i in range((n - 1) // 32, -1, -1):
            acc += _mix16(data, 16 * i, 32 * i) + _mix16(data, n - 16 * (i + 1), 32 * i + 16)
        return _avalanche(acc & MASK)
    for i in range(8):
        acc += _mix16(data, 16 * i, 16 * i)
    acc = _avalanche(acc & MASK)
    for i in range(8, n // 16):
        acc += _mix16(data, 16 * i, 16 * (i - 8) + 3)
    return _avalanche((acc + _mix16(data, n - 16, 136 - 17)) & MASK)


def _keys(at):
    return struct.unpack_from("<8Q", SECRET, at)


def _accumulate(acc, stripe, key):
    for i in range(8):
        value = stripe[i]
        mixed = value ^ key[i]
        acc[i ^ 1] += value
        acc[i] = (acc[i] + (mixed & 0xFFFFFFFF) * (mixed >> 32)) & MASK
    # What the first line of the loop added may be past 64 bits still.
    for i in range(8):
        acc[i] &= MASK


def _long(data):
    n = len(data)
    acc = [P32[2], P64[0], P64[1], P64[2], P64[3], P32[1], P64[4], P32[0]]
    keys = [_keys(8 * i) for i in range(16)]
    scramble, last = _keys(len(SECRET) - 64), _keys(len(SECRET) - 64 - 7)
    blocks = (n - 1) // 1024
    for block in range(blocks):
        words = struct.unpack_from("<128Q", data, 1024 * block)
        for i in range(16):
            _accumulate(acc, words[8 * i:8 * i + 8], keys[i])
        for i in range(8):
            acc[i] = ((acc[i] ^ (acc[i] >> 47)) ^ scramble[i]) * P32[0] & MASK
    for i in range((n - 1 - 1024 * blocks) // 64):
        _accumulate(acc, struct.unpack_from("<8Q", data, 1024 * blocks + 64 * i), keys[i])
    _accumulate(acc, struct.unpack_from("<8Q", data, n - 64), last)
    result = n * P64[0] & MASK
    for i in range(4):
        result += _fold(acc[2 * i] ^ _u64(SECRET, 11 + 16 * i), acc[2 * i + 1] ^ _u64(SECRET, 19 + 16 * i))
    return _avalanche(result & MASK)


def xxh3(data):
    """XXH3-64 of bytes, as a number."""
    if len(data) <= 16:
        return _short(data)
    return _middle(data) if len(data) <= 240 else _long(data)


def xxh3_seeded_empty(seed):
    """XXH3-64 of no bytes with a seed: what closes a record's header that has no metadata."""
    return _avalanche64(seed ^ (_u64(SECRET, 56) ^ _u64(SECRET, 64)))
