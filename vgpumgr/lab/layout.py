"""The files of a lab directory, and the record of what was started there. This module handles no processes.

D/                     0700
  lab.json             the record: hosts, the pid and start time of each supervisor, ports
  key, key.pub         the lab's own key pair; the only way in
  known_hosts          the hosts' keys
  key-cert.pub, ca_hosts, ca_users   where the spec has `certificates`: the key's, and the authorities (with .pub)
  inventory/           what VGPUMGR_INVENTORY names
  store.db             what VGPUMGR_STORE names; samples.db and locks lie beside it (made by the program)
  hosts/NAME/          log, control (socket), writes.jsonl, disk (a mount point in the host's namespace only)
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from vgpumgr.errors import LabError, UnknownHost
from vgpumgr.lab.authorities import Authorities
from vgpumgr.names import nearest
from vgpumgr.store import only_one, place

_AUTHORITIES = ("ca_hosts", "ca_users")
_STORE = "store.db"
OURS = (
    *("lab.json", "key", "key.pub", "key-cert.pub", "known_hosts"),
    *(f"{name}{end}" for name in (_STORE, place.SAMPLES) for end in ("", "-wal", "-shm")),  # SQLite's
    *(only_one.NAME, only_one.COLLECTOR, only_one.QUOTAS),
    *_AUTHORITIES,
    *(f"{name}.pub" for name in _AUTHORITIES),
)
OUR_FOLDERS = ("inventory", "hosts")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRecord:
    """One host. The supervisor is identified by its pid and `started`, its start in clock ticks since boot."""

    name: str
    pid: int
    started: int
    port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabRecord:
    """A lab. `pace` scales how long the imitated driver takes: with 0.1 it waits for a tenth of the real time."""

    spec: str
    hosts: tuple[HostRecord, ...]
    pace: float = 1.0

    def host(self, name: str) -> HostRecord:
        for host in self.hosts:
            if host.name == name:
                return host
        names = [host.name for host in self.hosts]
        near = nearest(name, names)
        raise UnknownHost(
            f"the lab has no host {name!r}; it has {', '.join(names)}", hint=f"did you mean {near}?" if near else None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The paths below one lab directory (absolute)."""

    folder: Path

    @property
    def record(self) -> Path:
        return self.folder / "lab.json"

    @property
    def key(self) -> Path:
        return self.folder / "key"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    @property
    def authorities(self) -> Authorities:
        hosts, users = (self.folder / name for name in _AUTHORITIES)
        return Authorities(hosts=hosts, users=users)

    @property
    def inventory(self) -> Path:
        return self.folder / "inventory"

    @property
    def store(self) -> Path:
        return self.folder / _STORE

    def host(self, name: str) -> Path:
        return self.folder / "hosts" / name

    def log(self, name: str) -> Path:
        return self.host(name) / "log"

    def writes(self, name: str) -> Path:
        return self.host(name) / "writes.jsonl"

    def read(self) -> LabRecord | None:
        """The record, or None if no lab was ever brought up or it was taken down."""
        try:
            data = json.loads(self.record.read_text(encoding="utf-8"))
            hosts = tuple(HostRecord(**host) for host in data["hosts"])
            return LabRecord(spec=data["spec"], hosts=hosts, pace=float(data.get("pace", 1)))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise LabError(f"{self.record} is not a lab's record: {error}") from error

    def write(self, record: LabRecord) -> None:
        """Replace the record atomically, so that no reader sees half of it."""
        beside = self.record.with_suffix(".new")
        beside.write_text(json.dumps(asdict(record), indent=1), encoding="utf-8")
        beside.rename(self.record)

    def in_the_way(self) -> list[str]:
        """The entries of the directory that a lab would overwrite or remove, since they have names that it uses."""
        return [name for name in (*OUR_FOLDERS, *OURS) if (self.folder / name).exists()]

    def wipe(self, *, keep_folder: bool = False) -> None:
        """Remove what a lab makes, and the directory if nothing else is left in it."""
        for name in OUR_FOLDERS:
            shutil.rmtree(self.folder / name, ignore_errors=True)
        for name in OURS:
            (self.folder / name).unlink(missing_ok=True)
        if not keep_folder and self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()


def find_layout(folder: str | os.PathLike[str] | None) -> Layout:
    """The lab directory: the given one, otherwise $VGPUMGR_LAB, otherwise ./.lab."""
    return Layout(folder=Path(folder or os.environ.get("VGPUMGR_LAB") or ".lab").absolute())


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks since boot (proc(5), stat field 22); None if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name, in parentheses, can itself contain blanks and parentheses; the fields after it never do.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def is_running(host: HostRecord) -> bool:
    return start_time(host.pid) == host.started
