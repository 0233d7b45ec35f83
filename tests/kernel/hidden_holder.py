"""Holds a VFIO device so that no process shows it: its descriptors are on their way through a socket, and in no table.

    python3 - GROUP DEVICE          (for example 7 and an mdev's UUID)

Prints `held` and keeps it until its input ends. That is the one holder that evidence from /proc cannot find, and so the
way to see on a real kernel what a removal does that should not have been begun. Runs on the host: standard library only.
"""

import array
import ctypes
import fcntl
import os
import socket
import sys

# linux/vfio.h: _IO(';', 100 + n)
SET_IOMMU = 0x3B66
GROUP_SET_CONTAINER = 0x3B68
GROUP_GET_DEVICE_FD = 0x3B6A
TYPE1_IOMMU = 1


def _device(group: int, name: str) -> int:
    """VFIO_GROUP_GET_DEVICE_FD: the answer is the call's own result, which Python gives for an argument that is a number."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = int(libc.ioctl(group, ctypes.c_ulong(GROUP_GET_DEVICE_FD), ctypes.c_char_p(name.encode())))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return descriptor


def main() -> None:
    group_number, name = sys.argv[1:]
    container = os.open("/dev/vfio/vfio", os.O_RDWR)
    group = os.open("/dev/vfio/" + group_number, os.O_RDWR)
    fcntl.ioctl(group, GROUP_SET_CONTAINER, array.array("i", [container]))
    fcntl.ioctl(container, SET_IOMMU, TYPE1_IOMMU)
    device = _device(group, name)
    one, other = socket.socketpair()
    # SCM_RIGHTS: until somebody receives them, the files are held by the socket's queue alone.
    socket.send_fds(one, [b"x"], [device, group, container])
    for descriptor in (device, group, container):
        os.close(descriptor)
    sys.stdout.write("held\n")
    sys.stdout.flush()
    sys.stdin.read()
    one.close()
    other.close()


main()
