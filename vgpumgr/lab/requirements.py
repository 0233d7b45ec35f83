"""What a lab needs from the machine it runs on; everything is checked before anything is created."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from vgpumgr.errors import LabError
from vgpumgr.lab import extra
from vgpumgr.lab.nvml.build import find_header

# Program → the Debian package that has it.
PROGRAMS = {
    "bash": "bash",
    "cc": "gcc libc6-dev",
    "env": "coreutils",
    "libvirtd": "libvirt-daemon-system",
    "mount": "mount",
    "nsenter": "util-linux",
    "qemu-system-x86_64": "qemu-system-x86",
    "setpriv": "util-linux",
    "setsid": "util-linux",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "sshd": "openssh-server",
    "sudo": "sudo",
    "unshare": "util-linux",
    "virtlogd": "libvirt-daemon-system",
}
# Module → the package of the extra `lab` that has it.
MODULES = {"libvirt": "libvirt-python", "mfusepy": "mfusepy"}
# There is no wheel of libvirt-python: pip builds it with these.
_BUILD = ("gcc", "libc6-dev", "libvirt-dev", "pkg-config", "python3-dev")
LIBRARY = "libfuse3.so.3"
HOST_PYTHON = Path("/usr/bin/python3")

# Directories of programs that a user's PATH often leaves out.
PROGRAM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def check() -> None:
    """Raise LabError naming everything that is missing, and the command that installs it."""
    missing = [*_missing_rights(), *_missing_layout()]
    packages: set[str] = set()
    for program, package in PROGRAMS.items():
        if shutil.which(program, path=PROGRAM_PATH) is None:
            missing.append(f"program {program} (Debian package {package})")
            packages.update(package.split())
    if not HOST_PYTHON.exists():
        missing.append(f"{HOST_PYTHON}, which every host has (Debian package python3)")
        packages.add("python3")
    if not _has_library():
        missing.append(f"library {LIBRARY} (Debian package fuse3)")
        packages.add("fuse3")
    modules = _missing_modules()
    if "libvirt-python" in modules:
        packages.update(_BUILD)
    missing.extend(f"Python package {package}" for package in modules)
    if not missing:
        return
    commands = []
    if packages:
        commands.append(f"apt-get install --no-install-recommends {' '.join(sorted(packages))}")
    if modules:
        commands.append(extra.install_command())
    hint = f"install it with: {' && '.join(commands)}" if commands else "run it as root on a machine that has these"
    raise LabError("the lab cannot run here", hint=hint, details=missing)


def _missing_rights() -> list[str]:
    missing = []
    if os.geteuid() != 0:
        missing.append("root (a lab makes mount namespaces): run it with sudo")
    if not Path("/dev/fuse").exists():
        missing.append("/dev/fuse (in a container: --device /dev/fuse --cap-add SYS_ADMIN)")
    return missing


def _missing_layout() -> list[str]:
    """The folders that are not on the file system of /. A host's root is a copy-on-write view of that one alone."""
    root = Path("/").stat().st_dev
    mounts = [name for name in ("/usr", "/etc", "/var", "/var/lib") if Path(name).stat().st_dev != root]
    return [f"{name} on the same file system as /" for name in mounts]


def _missing_modules() -> list[str]:
    """The missing packages of the extra `lab`: libvirt and FUSE for Python, and NVIDIA's nvml.h."""
    missing = [package for module, package in MODULES.items() if not importlib.util.find_spec(module)]
    try:
        find_header()
    except LabError:
        missing.append("nvidia-nvml-dev")
    return missing


def _has_library() -> bool:
    folders = [Path("/lib"), Path("/usr/lib"), Path("/usr/local/lib")]
    return any((folder / LIBRARY).exists() or any(folder.glob(f"*/{LIBRARY}")) for folder in folders)
