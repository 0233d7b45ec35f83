"""Errors and findings that differ only in the host or VM: printed once, with all names and one hint."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from vgpumgr.errors import HostError, HostKeyRefused, VmNotSeen
from vgpumgr.wording import Command, GpuAddress, Message, cut, values

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vgpumgr.core.model.view import Finding
    from vgpumgr.errors import VgpumgrError

FEWEST = 3  # two errors are read as quickly as their summary
_COLUMNS = 100
_ELSE = "…"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """Several texts as one. `message` has … where they differ; `lines` has their hosts or VMs, then shared details."""

    message: str
    lines: tuple[str, ...]
    hint: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A task's error. `subject`: what the task is about. `vm` and `slot` are None if that is not a VM's slot."""

    host: str
    vm: str | None
    slot: str | None
    subject: str
    error: VgpumgrError

    @property
    def says_whose(self) -> bool:
        """Whether the error begins with the VM and its slot."""
        what = self.error.what
        if not isinstance(what, Message) or what.values[:2] != (self.vm, self.slot):
            return False
        return what.texts[:2] in (("", " "), ("", " slot "))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said(Generic[_T]):
    """A text about a host or a VM, cut into `pieces`. Texts of one `kind` are alike if only every second piece differs.

    `one`: the error, task or finding. `kind` None: this text is alike with no other.
    """

    one: _T
    kind: object
    host: str = ""
    vm: str | None = None
    pieces: Sequence[str] = ()
    details: tuple[str, ...] = ()
    hint: str | None = None


def grouped(errors: Iterable[VgpumgrError]) -> list[VgpumgrError | Alike]:
    """The errors. Alike ones become one, at the place of the first. Fewer than FEWEST hosts are not grouped."""
    return _together(_of_host(error) for error in errors)


def _of_host(error: VgpumgrError) -> _Said[VgpumgrError]:
    if not isinstance(error, HostError):
        return _Said(one=error, kind=None)
    pieces = cut(error.what, {error.host})
    return _Said(one=error, kind=type(error), host=error.host, pieces=pieces, details=error.details, hint=error.hint)


def of_tasks(failed: Iterable[Failed]) -> list[Failed | Alike]:
    """The tasks. Alike errors of VMs' slots become one, at the place of the first, if their details are equal."""
    return _together(
        _Said(
            one=one,
            kind=None if one.vm is None else (type(one.error), one.error.details),
            host=one.host,
            vm=one.vm,
            pieces=cut(one.error.what, {one.host, one.vm}),
            details=one.error.details,
            hint=one.error.hint,
        )
        for one in failed
    )


def findings(found: Iterable[Finding]) -> list[Finding | Alike]:
    """The findings. Alike ones become one, unless they have a command with their host or VM, which is to be copied."""
    return _together(
        _Said(
            one=one,
            kind=None if one.host is None or _names_its_own(one) else one.kind,
            host=one.host or "",
            vm=one.vm,
            pieces=_without_host(cut(one.text, {one.host, one.vm}), one.host),
        )
        for one in found
    )


def within(error: VgpumgrError) -> tuple[Sequence[str], str | None]:
    """An error's details and hint. What many hosts or GPUs in it have in common is stated once, with its hint."""
    groups = grouped(error.unread) if isinstance(error, VmNotSeen) else []
    many = [one for one in groups if isinstance(one, Alike)]
    if not many:
        return _by_reason(error.details), error.hint
    details: list[str] = []
    for one in groups:
        details += [one.message, *(f"  {line}" for line in one.lines)] if isinstance(one, Alike) else [str(one)]
    hints = [one.hint for one in many if one.hint]
    return details, "; ".join([*hints, error.hint] if error.hint else hints)


def _by_reason(details: Iterable[str]) -> list[str]:
    """The lines. Lines about one GPU each that differ only in values, such as the GPU's address, are told once."""
    kinds: dict[tuple[bool, *tuple[str, ...]], list[tuple[str, str, list[str]]]] = {}
    for line in details:
        pci = next(iter(values(line)), None)
        about = isinstance(pci, GpuAddress) and line.startswith(f"{pci}  ")
        pieces = cut(line, {pci})
        kinds.setdefault((about, *pieces[::2]), []).append((line, pci or "", pieces))
    lines: list[str] = []
    for (is_gpu, *_), alike in kinds.items():
        if not is_gpu or len(alike) < FEWEST:
            lines += [line for line, _, _ in alike]
            continue
        lines.append(f"{len(alike)} GPUs{_common(pieces[2:] for _, _, pieces in alike)}")
        lines += [f"  {line}" for line in _wrapped(pci for _, pci, _ in alike)]
    return lines


def _together(remarks: Iterable[_Said[_T]]) -> list[_T | Alike]:
    kinds: dict[object, list[_Said[_T]]] = {}
    for one in remarks:
        kinds.setdefault(id(one.one) if one.kind is None else (one.kind, *one.pieces[::2]), []).append(one)
    result: list[_T | Alike] = []
    for alike in kinds.values():
        many = len({(one.host, one.vm) for one in alike}) >= FEWEST
        result += [_told_once(alike)] if many else [one.one for one in alike]
    return result


def _without_host(pieces: list[str], host: str | None) -> list[str]:
    """The pieces without the host's name and colon, if they begin with them."""
    if pieces[:2] == ["", host] and pieces[2].startswith(": "):
        return [pieces[2].removeprefix(": "), *pieces[3:]]
    return pieces


def _names_its_own(finding: Finding) -> bool:
    own = {finding.host, finding.vm}
    return any(not own.isdisjoint(value.words) for value in values(finding.text) if isinstance(value, Command))


def _common(texts: Iterable[Sequence[str]]) -> str:
    """The text that these texts (each in pieces) have in common, with … where they differ."""
    return "".join(pieces[0] if len(set(pieces)) == 1 else _ELSE for pieces in zip(*texts, strict=True))


def _told_once(alike: Sequence[_Said[_T]]) -> Alike:
    who, names = _who(alike)
    details = {one.details for one in alike}
    return Alike(
        message=f"{who}: {_common(one.pieces for one in alike)}",
        lines=(*names, *(details.pop() if len(details) == 1 else ())),
        hint=_hint(alike),
    )


def _who(alike: Sequence[_Said[_T]]) -> tuple[str, list[str]]:
    """`3 hosts`, `3 VMs on kvm01`, `9 VMs on 2 hosts`; and the lines that name them."""
    vms: dict[str, dict[str | None, None]] = {}
    for one in alike:
        vms.setdefault(one.host, {})[one.vm] = None
    if alike[0].vm is None:
        return f"{len(vms)} hosts", list(_wrapped(vms))
    number = sum(map(len, vms.values()))
    vms_by_host = {host: [vm for vm in found if vm is not None] for host, found in vms.items()}
    if len(vms_by_host) == 1:
        ((host, found),) = vms_by_host.items()
        return f"{number} VMs on {host}", list(_wrapped(found))
    return f"{number} VMs on {len(vms_by_host)} hosts", [
        line for host, found in vms_by_host.items() for line in _wrapped([f"{host}:", *found])
    ]


def _wrapped(names: Iterable[str]) -> Iterator[str]:
    """The names, several to a line."""
    line = ""
    for name in names:
        if line and len(line) + 1 + len(name) > _COLUMNS:
            yield line
            line = ""
        line = f"{line} {name}" if line else name
    yield line


def _hint(alike: Sequence[_Said[_T]]) -> str | None:
    """The hint that all share, or the one command that adds all host keys; else the first one's, as an example."""
    first = alike[0]
    if len({one.hint for one in alike}) == 1:
        return first.hint
    errors = [one.one for one in alike if isinstance(one.one, HostKeyRefused) and one.one.scan is not None]
    if len(errors) == len(alike):
        return _add_all(errors)
    return f"{first.vm or first.host}: {first.hint}; the others likewise" if first.hint else None


def _add_all(errors: Sequence[HostKeyRefused]) -> str:
    """The command that adds all keys. It scans only once, so that exactly the compared keys are added."""
    scans = [error.scan for error in errors if error.scan is not None]
    addresses: dict[tuple[str, int], list[str]] = {}
    for scan in scans:
        addresses.setdefault((scan.through, scan.port), []).append(shlex.quote(scan.address))
    commands = [f"{through}ssh-keyscan -p {port} {' '.join(names)}" for (through, port), names in addresses.items()]
    every = commands[0] if len(commands) == 1 else f"{{ {'; '.join(commands)}; }}"
    adds = " && ".join(f"cat new_keys >> {shlex.quote(file)}" for file in dict.fromkeys(scan.file for scan in scans))
    return (
        f"{every} > new_keys; compare the fingerprints that `ssh-keygen -lf new_keys` shows on the hosts' consoles "
        f"(ssh-keygen -lf {scans[0].key_file}), then: {adds}"
    )
