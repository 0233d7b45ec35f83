"""Reads and merges the persistent scheduler setting: RmPVMRL in the nvidia module's options in /etc/modprobe.d.

    options nvidia NVreg_RegistryDwordsPerDevice="pci=0000:41:00.0;RmPVMRL=0x00000011;pci=…"

modprobe reads its files in order of their names and passes all options on; the kernel keeps only the last of a repeated
parameter. A second line would drop the dwords of the first, so an edit changes the effective line in place and keeps
every other byte. Comments, joined lines (backslash, newline) and double quotes are read as modprobe and the kernel do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr import names
from vgpumgr.errors import BadName
from vgpumgr.wording import joined, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vgpumgr.names import PciAddress

FOLDER = "/etc/modprobe.d"
_HEAD = """\
# Written by vgpumgr: how GPUs share their time among vGPUs, from the next load of the nvidia module on.
# `vgpumgr scheduler set` changes the lines below. Your own options are kept; do not set this parameter in a second line or
# file, because the kernel keeps only the last one.
"""
OUR_PATH = f"{FOLDER}/vgpumgr.conf"
PER_DEVICE = "NVreg_RegistryDwordsPerDevice"
EVERY_DEVICE = "NVreg_RegistryDwords"
KEY = "RmPVMRL"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModprobeFile:
    """A whole file that has an `options nvidia` line."""

    path: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModule:
    """The parameters that the running module was loaded with; empty if none were given."""

    registry_dwords: str
    registry_dwords_per_device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A value of RmPVMRL. `number` is None if the text is not a number. `path` is its file; None: the loaded module."""

    text: str
    number: int | None
    path: str | None
    per_device: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A file's text before and after. `before` None: the file does not exist."""

    path: str
    before: str | None
    text: str


def read(files: Sequence[ModprobeFile], gpu: PciAddress) -> Found | None:
    """The RmPVMRL of a GPU after the module's next load with these files. None: not set, so best effort."""
    return _read(_last(files, PER_DEVICE), _last(files, EVERY_DEVICE), gpu)


def read_loaded(module: LoadedModule, gpu: PciAddress) -> Found | None:
    """The RmPVMRL of a GPU in the loaded module."""
    per_device = _Setting.of_text(module.registry_dwords_per_device)
    return _read(per_device, _Setting.of_text(module.registry_dwords), gpu)


def number(found: Found | None) -> int | None:
    """The value in effect: 0 if none is set; None if it is not a number."""
    return 0 if found is None else found.number


def merge(files: Sequence[ModprobeFile], gpu: PciAddress, value: int) -> Edit:
    """The edit that makes the module load with this value for the GPU; nothing else changes."""
    winner = _last(files, PER_DEVICE)
    if winner is not None:
        before = next(file.text for file in files if file.path == winner.path)
        return Edit(path=winner.path, before=before, text=_put(before, winner, gpu, value))
    line = options_line(gpu, value)
    ours = next((file.text for file in files if file.path == OUR_PATH), None)
    if ours is None:
        return Edit(path=OUR_PATH, before=None, text=f"{_HEAD}{line}\n")
    gap = "" if not ours or ours.endswith("\n") else "\n"
    return Edit(path=OUR_PATH, before=ours, text=f"{ours}{gap}{line}\n")


def options_line(gpu: PciAddress, value: int) -> str:
    return f'options nvidia {PER_DEVICE}="pci={gpu};{_dword(value)}"'


def places(file: ModprobeFile, name: str) -> tuple[str, ...]:
    """FILE:LINE of each place in a file that sets this parameter of the module."""
    return tuple(f"{file.path}:{one.line}" for one in _settings((file,), name))


def warnings(files: Sequence[ModprobeFile], gpu: PciAddress) -> tuple[str, ...]:
    """What an operator should know about these files before relying on them."""
    lines: list[str] = []
    for name in (PER_DEVICE, EVERY_DEVICE):
        every = [place for file in sorted(files, key=lambda file: file.path) for place in places(file, name)]
        if len(every) > 1:
            *others, last = every
            rest = joined(", ", others)
            lines.append(
                say("{} is set {} times: only the last one, {}, takes effect, not {}", name, len(every), last, rest)
            )
    setting = _last(files, EVERY_DEVICE)
    if setting is not None and _find(setting, None, KEY) is not None:
        lines.append(
            say(
                "{} sets {} for every GPU; the value for GPU {} alone overrides it (inferred)",
                f"{setting.path}:{setting.line}",
                KEY,
                gpu,
            )
        )
    return tuple(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """One `NAME=VALUE` of an options line.

    `at` has the file offset of each character of the value. `end` is the offset after the value; if the value is empty,
    it is the offset at which it would begin.
    """

    path: str
    line: int
    value: str
    at: tuple[int, ...]
    end: int

    @classmethod
    def of_text(cls, value: str) -> _Setting:
        return cls(path="", line=0, value=value, at=tuple(range(len(value))), end=len(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """One `KEY=TEXT` between semicolons. `device` is the `pci=` before it; begin and end are offsets in the value."""

    device: PciAddress | None
    key: str
    text: str
    begin: int
    end: int


def _read(per_device: _Setting | None, every: _Setting | None, gpu: PciAddress) -> Found | None:
    for setting, device in ((per_device, gpu), (every, None)):
        item = _find(setting, device, KEY) if setting else None
        if setting is not None and item is not None:
            return Found(
                text=item.text, number=_number(item.text), path=setting.path or None, per_device=device is not None
            )
    return None


def _put(text: str, setting: _Setting, gpu: PciAddress, value: int) -> str:
    """The file's text with the GPU's dword put into that setting."""
    dword = _dword(value)
    current = _find(setting, gpu, KEY)
    if current is not None:
        return text[: setting.at[current.begin]] + dword + text[setting.at[current.end - 1] + 1 :]
    group = [item for item in _items(setting.value) if item.device == gpu]
    if group:
        at = setting.at[group[-1].end - 1] + 1
        return f"{text[:at]};{dword}{text[at:]}"
    gap = "" if not setting.value.strip() or setting.value.rstrip().endswith(";") else ";"
    return f"{text[: setting.end]}{gap}pci={gpu};{dword}{text[setting.end :]}"


def _find(setting: _Setting, device: PciAddress | None, key: str) -> _Item | None:
    """The item that takes effect: the last one of that key for that device (None: for every device)."""
    items = [item for item in _items(setting.value) if (item.device, item.key) == (device, key)]
    return items[-1] if items else None


def _items(value: str) -> Iterator[_Item]:
    device: PciAddress | None = None
    begin = 0
    for piece in value.split(";"):
        inner = piece.strip()
        start = begin + piece.index(inner)
        begin += len(piece) + 1
        if not inner:
            continue
        key, _, text = inner.partition("=")
        if key == "pci":
            device = _device(text)
        yield _Item(device=device, key=key, text=text, begin=start, end=start + len(inner))


def _device(text: str) -> PciAddress:
    try:
        return names.parse_pci_address(text)
    except BadName:
        return names.PciAddress(text)  # not a PCI address, so not a GPU of ours; its dwords stay separate


def _number(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


def _dword(value: int) -> str:
    return f"{KEY}=0x{value:08x}"


def _last(files: Sequence[ModprobeFile], name: str) -> _Setting | None:
    settings = _settings(files, name)
    return settings[-1] if settings else None


def _settings(files: Sequence[ModprobeFile], name: str) -> list[_Setting]:
    """Every place that sets a parameter of the module, in modprobe's order."""
    return [
        setting
        for file in sorted(files, key=lambda file: file.path)
        for begin, line in _joined_lines(file.text)
        if f"{name}=" in line.replace("\\\n", "").replace('"', "")  # few lines do; splitting them all is slow
        for words in (_words(line, begin),)
        if [_plain(word) for word in words[:2]] == ["options", "nvidia"]
        for setting in (_setting(file, word, name) for word in words[2:])
        if setting is not None
    ]


_PIECE = re.compile(r'\\\n|[ \t]+|"|\\|[^\\ \t"]+')
_LINE_END = re.compile(r"(?<!\\)\n")
_Word = list[tuple[str, int]]  # characters as modprobe sees them, each with its offset in the file


def _joined_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines, each with its offset in the file. One that ends in a backslash goes on in the next."""
    begin = 0
    for end in _LINE_END.finditer(text):
        yield begin, text[begin : end.start()]
        begin = end.end()
    yield begin, text[begin:]


def _words(line: str, begin: int) -> list[_Word]:
    """The words of a line. A comment is a line whose first word is not a command."""
    words: list[_Word] = [[]]
    quoted = False
    for match in _PIECE.finditer(line):
        piece, at = match[0], begin + match.start()
        if piece == "\\\n":
            continue
        if piece[0] in " \t" and not quoted:
            words.append([])
        else:
            quoted ^= piece == '"'
            words[-1].extend(zip(piece, range(at, at + len(piece)), strict=True))
    return [word for word in words if word]


def _plain(word: _Word) -> str:
    return "".join(letter for letter, _ in word)


def _setting(file: ModprobeFile, word: _Word, name: str) -> _Setting | None:
    bare = [(letter, at) for letter, at in word if letter != '"']
    key, equals, value = _plain(bare).partition("=")
    if key != name or not equals:
        return None
    places = [at for _, at in bare[len(key) + 1 :]]
    after_equals = bare[len(key)][1] + 1
    begin = after_equals + file.text.startswith('"', after_equals)
    return _Setting(
        path=file.path,
        line=file.text.count("\n", 0, word[0][1]) + 1,
        value=value,
        at=tuple(places),
        end=places[-1] + 1 if places else begin,
    )
