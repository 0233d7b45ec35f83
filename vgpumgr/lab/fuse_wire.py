"""The kernel's FUSE protocol as far as a sysfs needs it: opcodes, flags and records of linux/fuse.h (7.31 and later)."""

from __future__ import annotations

import struct

MAJOR, MINOR = 7, 31  # the kernel speaks the lower of its and our minor version; 7.31 is Linux 5.4

LOOKUP = 1
FORGET = 2
GETATTR = 3
SETATTR = 4
READLINK = 5
SYMLINK = 6
MKNOD = 8
MKDIR = 9
UNLINK = 10
RMDIR = 11
RENAME = 12
LINK = 13
OPEN = 14
READ = 15
WRITE = 16
STATFS = 17
RELEASE = 18
INIT = 26
OPENDIR = 27
READDIR = 28
RELEASEDIR = 29
ACCESS = 34
CREATE = 35
INTERRUPT = 36
DESTROY = 38
BATCH_FORGET = 42
RENAME2 = 45

ROOT = 1  # the root's node id
DIRECT_IO = 1  # in an open's answer: nothing of the file is cached
# INIT flags: O_TRUNC comes with the open, not as a truncation; lookups and lists of one directory side by side
ATOMIC_O_TRUNC = 1 << 3
PARALLEL_DIROPS = 1 << 18
# what a SETATTR changes
SET_MODE_OR_OWNER = 0b111
SET_SIZE = 0b1000

IN_HEADER = struct.Struct("<IIQQIIII")  # length, opcode, unique, node id, uid, gid, pid, padding
OUT_HEADER = struct.Struct("<IiQ")  # length, -errno, unique
INIT_IN = struct.Struct("<IIII")  # major, minor, max_readahead, flags
INIT_OUT = struct.Struct(
    "<IIIIHHIIHHI28x"
)  # …, max_background, congestion, max_write, granularity ns, pages, alignment
ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")  # inode, size, blocks, a/m/ctime, their ns, mode, nlink, uid, gid, …
ENTRY_OUT = struct.Struct("<QQQQII")  # node id, generation, seconds that the name and the attributes keep, their ns
ATTR_OUT = struct.Struct("<QII")  # seconds that the attributes keep, ns, padding
OPEN_IN = struct.Struct("<II")  # flags, open flags
OPEN_OUT = struct.Struct("<QII")  # handle, open flags, padding
READ_IN = struct.Struct("<QQI")  # handle, offset, size …
WRITE_IN = struct.Struct("<QQIIQII")  # handle, offset, size, …; the data follows
WRITE_OUT = struct.Struct("<II")
SETATTR_IN = struct.Struct("<I")  # what is to be set …
DIRENT = struct.Struct("<QQII")  # inode, offset of the next one, name's length, type; the name follows, padded to 8
STATFS_OUT = struct.Struct("<QQQQQIIII24x")


def pad(data: bytes) -> bytes:
    """Directory entries begin at multiples of 8."""
    return data + bytes(-len(data) % 8)
