"""Reads an inventory's files into plain data with line numbers, from which core builds the Inventory.

It decides nothing itself. It takes the YAML parser's events one by one, not its nodes. So there is no recursion, and
too deep nesting is found early (the parser itself needs 15 s for 100,000 open brackets). Aliases share a value, so
their expansion can be limited, too.
"""

from __future__ import annotations

import errno
import functools
import gc
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import yaml

from vgpumgr import files, resources
from vgpumgr.core.driver import catalogue
from vgpumgr.core.inventory import (
    Finding,
    Inventory,
    Location,
    Problem,
    SourceFile,
    Sources,
    Value,
    build_inventory,
)
from vgpumgr.core.inventory.groups import plugin_of
from vgpumgr.core.policies import known
from vgpumgr.inventory_files.folder import YAML, find_inventory, scan
from vgpumgr.inventory_files.values import CannotGoOnError, Plain, ValueBuilder
from vgpumgr.wording import Own, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vgpumgr.core.inventory.whose import GroupChoice
    from vgpumgr.core.policies.policy import Policy
    from vgpumgr.inventory_files.folder import Folder

__all__ = ["find_inventory", "load", "read_yaml"]

MAX_BYTES = 8 * files.MIB  # 10,000 hosts with their VMs are about 3 MB
_BOM = "\ufeff"

_TEXTS = (None, "!", "!unsafe", "tag:yaml.org,2002:str")
_USUAL = (None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float", "tag:yaml.org,2002:bool", "tag:yaml.org,2002:null")
_MERGE = "tag:yaml.org,2002:merge"
_LONGEST_NUMBER = 64


def load(
    paths: Path | Sequence[Path],
    *,
    home: Path,
    environ: Mapping[str, str],
    group: GroupChoice | None = None,
    keep: Path | None = None,
    asks: bool = True,
) -> Inventory:
    """The inventory at these paths; a later one wins, as in Ansible. `group`: whose hosts are hypervisors.

    `keep`: the folder where answers of ansible-inventory are kept. `asks`: it may be run; otherwise only a kept answer
    counts. Raises InventoryError with all problems at once.
    """
    # This creates no cycles, and with hundreds of thousands of young objects the collector costs more than the parser.
    collecting = gc.isenabled()
    gc.disable()
    try:
        sources = _read_sources([paths] if isinstance(paths, Path) else paths, environ, keep, asks=asks)
        policies = functools.partial(_policies, paths, home)
        return build_inventory(sources, home=str(home), environ=environ, group=group, boards=_boards, policies=policies)
    finally:
        if collecting:
            gc.enable()


def _policies(paths: Path | Sequence[Path], home: Path, folder: str | None) -> known.Find:
    """How to find the placement policies in `folder`, which is a path from the folder of the (first) inventory.

    Raises PolicyFailed if the folder cannot be used.
    """
    if folder is None:
        return functools.partial(_find_policy, None)
    from vgpumgr.inventory_files import policy_files  # most inventories name none

    first = paths if isinstance(paths, Path) else paths[0]
    base = first if first.is_dir() else first.parent
    # A path is taken as it is written, even through a link: beside the inventory as the user names it.
    path = Path(os.path.normpath(home / folder[2:] if folder.startswith("~/") else base / folder))
    policy_files.check(path)
    return functools.partial(_find_policy, path)


def _find_policy(folder: Path | None, name: str) -> Policy:
    if name in known.BUILT_IN:
        return known.find(name)
    from vgpumgr.inventory_files import policy_files  # most inventories name none

    return policy_files.find(folder, name)


def _boards() -> frozenset[str]:
    return catalogue.parse(resources.catalogue_text()).boards


def _common(roots: Sequence[Path]) -> Path:
    return roots[0] if len(roots) == 1 else Path(os.path.commonpath([root.absolute() for root in roots]))


def _read_sources(paths: Sequence[Path], environ: Mapping[str, str], keep: Path | None, *, asks: bool) -> Sources:
    """Read the files. With several inventories, a place is reported by its path from their common folder."""
    folders = [scan(path) for path in paths]
    root = _common([folder.root for folder in folders])
    scanned = [_below(root, folder, one) for folder in folders for one in folder.problems]
    reader = _Reader(root=root, problems=list(scanned))
    listed = [source for folder in folders for file in folder.files for source in reader.read_source(file)]
    unread = [_below(root, folder, one) for folder in folders for one in folder.for_ansible.values()]
    reader.problems += unread
    plugins = [*filter(None, map(plugin_of, listed))]
    wheres = [*(one.where for one in unread), *(one.where for one in plugins)]
    answered = None
    if wheres:
        from vgpumgr.inventory_files import ansible  # most inventories have none

        most_s = ansible.kept_s(environ)
        if most_s is not None:
            reader.problems[:] = scanned  # Ansible judges what it reads
            reader.findings.clear()
            most_s = most_s if asks else ansible.KEPT_ALONE
            listed, answered = _ask(reader, min(wheres), paths, folders, environ=environ, most_s=most_s, keep=keep)
    group_vars, host_vars = _variables(reader, folders)
    return Sources(
        root=" and ".join(map(str, paths)),
        files=tuple(listed),
        group_vars=group_vars,
        host_vars=host_vars,
        problems=tuple(reader.problems),
        findings=tuple(reader.findings),
        answered=answered,
    )


def _variables(
    reader: _Reader, folders: Sequence[Folder]
) -> tuple[tuple[dict[str, tuple[SourceFile, ...]], ...], dict[str, tuple[SourceFile, ...]]]:
    """The files of group_vars by group, separately for each folder; and the files of all host_vars by host."""
    group_vars: list[dict[str, tuple[SourceFile, ...]]] = []
    host_vars: dict[str, tuple[SourceFile, ...]] = {}
    for folder in folders:
        group_vars.append({name: tuple(map(reader.read, parts)) for name, parts in folder.group_vars.items()})
        for name, parts in folder.host_vars.items():
            host_vars[name] = (*host_vars.get(name, ()), *map(reader.read, parts))
    return tuple(group_vars), host_vars


def _ask(
    reader: _Reader,
    where: Location,
    paths: Sequence[Path],
    folders: Sequence[Folder],
    *,
    environ: Mapping[str, str],
    most_s: float,
    keep: Path | None,
) -> tuple[list[SourceFile], str | None]:
    """Ansible's answer for all sources (the one at `where` needs it), and its age as text."""
    from vgpumgr.inventory_files import ansible

    read = [path for one in folders for path in (*one.files, *one.for_ansible)]
    variables = [kind for one in folders for kind in (one.group_vars, one.host_vars)]
    read += [path for kind in variables for parts in kind.values() for path in parts]
    try:
        answer = ansible.ask(paths, read, environ, most_s=most_s, keep=keep)
    except ansible.NoAnswerError as error:
        text = f"only Ansible reads this, and there is no answer: {error}"
        reader.problems.append(Problem(where=where, text=text, hint=f"`{ansible.by_hand(paths)}` says more"))
        return [], None
    age = Own(f"{answer.age_s:.0f} s")
    answered = f"{ansible.SOURCE}, {age} ago"
    text = say("the hosts and groups are those of `{}`, {} ago ({})", ansible.SOURCE, age, ansible.VARIABLE)
    reader.findings.append(Finding(where=where, text=text))
    content, problems = read_yaml(answer.text, ansible.SOURCE, reader.meanings)
    reader.problems += problems
    if content is None and not problems:
        content = Value(where=Location(ansible.SOURCE, 1), data=None)
    return [SourceFile(file=ansible.SOURCE, content=content)], answered


def _below(root: Path, folder: Folder, one: Problem) -> Problem:
    if root == folder.root:
        return one
    return replace(one, where=one.where._replace(file=os.path.relpath(folder.root / one.where.file, root)))


@dataclass(slots=True, kw_only=True)
class _Reader:
    """Reads one file after the other; a problem with one does not stop the others."""

    root: Path
    problems: list[Problem]
    findings: list[Finding] = field(default_factory=list)
    meanings: _Meanings = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)  # of the sources that were read

    def read_source(self, path: Path) -> list[SourceFile]:
        """A file that lists hosts. If its suffix does not decide, a mapping is YAML, all else INI, as in Ansible.

        INI becomes one source for each of its tables. As in Ansible, it may name groups of the files before it.
        """
        sources = self._read_source(path)
        for source in sources:
            self.groups.update(_groups(source.content))
        return sources

    def _read_source(self, path: Path) -> list[SourceFile]:
        if path.suffix.lower() in YAML:
            return [self.read(path)]
        file, text = self._text(path)
        if text is None:
            return []
        if path.suffix.lower() != ".ini":
            content, problems = read_yaml(text.removeprefix(_BOM), file, self.meanings)
            if text.startswith("---") or (content is not None and isinstance(content.data, Mapping)):
                return [self._source(file, text, content, problems)]
        if text.startswith("#!"):
            self.problems.append(
                Problem(
                    where=Location(file, 1), text="a script that may not be executed", hint="chmod +x, or remove it"
                )
            )
            return []
        from vgpumgr.inventory_files.ini import read_ini  # most inventories have none

        tables, problems = read_ini(text, file, self.groups)
        if not tables and not problems:
            if _is_remark(text):
                return [self._source(file, text, None, [])]
            empty = "the file is empty"
            problems.append(
                Problem(where=Location(file, 1), text=empty, hint="write [hypervisors], or remove the file")
            )
        self.problems += problems
        return [SourceFile(file=file, content=table) for table in tables]

    def read(self, path: Path) -> SourceFile:
        """Read a YAML file."""
        file, text = self._text(path)
        if text is None:
            return SourceFile(file=file, content=None)
        return self._source(file, text, *read_yaml(text.removeprefix(_BOM), file, self.meanings))

    def _source(self, file: str, text: str, content: Value | None, problems: list[Problem]) -> SourceFile:
        """A parsed file as a source. Core decides what an empty file means, or one with only comments."""
        self.problems += problems
        if content is None and not problems:
            content = Value(where=Location(file, 1), data=None)
        return SourceFile(file=file, content=content, is_remark=_is_remark(text))

    def _text(self, path: Path) -> tuple[str, str | None]:
        """A file's name in the inventory, and its text. If it cannot be read, reports why; the text is None."""
        file = os.path.relpath(path, self.root)
        where = Location(file=file, line=1)
        try:
            data = files.read_bytes(path, MAX_BYTES)
        except OSError as error:
            large = error.errno == errno.EFBIG
            text, hint = ("", "split it into several files") if large else ("cannot be read: ", None)
            self.problems.append(Problem(where=where, text=text + _reason(error), hint=hint))
            return file, None
        if data.startswith(b"$ANSIBLE_VAULT;"):
            text = "the whole file is encrypted with ansible-vault and is not read; variables that vgpumgr needs must not be in it"
            self.findings.append(Finding(where=where, text=text))
            return file, None
        try:
            return file, data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            where = Location(file=file, line=line)
            self.problems.append(Problem(where=where, text="not UTF-8 text", hint="save it as UTF-8"))
            return file, None


def _is_remark(text: str) -> bool:
    """Whether the text has comments, and no declaration of ours could be among them."""
    return any(line.lstrip().startswith(("#", ";")) for line in text.splitlines()) and "vgpumgr_" not in text


def _groups(content: Value | None) -> Iterator[str]:
    """The names of the groups in a source, and of their children."""
    tables, ids = [content], set[int]()
    while tables:
        table = tables.pop()
        if table is None or id(table) in ids or not isinstance(table.data, Mapping):
            continue
        ids.add(id(table))  # an alias is the same table again
        for name, member in table.data.items():
            yield name
            group = member.value.data
            if isinstance(group, Mapping) and "children" in group:
                tables.append(group["children"].value)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


# What plain text means in YAML, and whether it is `<<`. The same few words stand in thousands of files.
_Meanings: TypeAlias = "dict[str, tuple[Plain, bool]]"


def read_yaml(text: str, file: str, meanings: _Meanings | None = None) -> tuple[Value | None, list[Problem]]:
    """One document as located data, and its problems; no data if the YAML is broken. `meanings`: a cache for files."""
    feed = _Feed(file=file, meanings={} if meanings is None else meanings)
    try:
        loader = yaml.CSafeLoader(text)
        try:
            feed.run(loader)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = ", ".join(part for part in (error.context, error.problem) if part)
        line = mark.line + 1 if mark is not None else 1
        hint = "indent with spaces, not with tabs" if _begins_with_tab(text, line) else None
        return None, [feed.refusal(line, f"not YAML: {message}", hint)]
    except yaml.YAMLError as error:  # errors about characters that YAML does not allow have no mark
        return None, [feed.refusal(_line_of_bad_character(text), f"not YAML: {str(error).splitlines()[0]}")]
    except CannotGoOnError as error:
        return None, [*feed.builder.problems, error.problem]
    return feed.builder.root, feed.builder.problems


def _begins_with_tab(text: str, line: int) -> bool:
    lines = text.split("\n", line)
    return line <= len(lines) and "\t" in lines[line - 1][: -len(lines[line - 1].lstrip()) or None]


def _line_of_bad_character(text: str) -> int:
    allowed = "\n\r\t\x85"
    bad = next((place for place, letter in enumerate(text) if not (letter.isprintable() or letter in allowed)), 0)
    return text.count("\n", 0, bad) + 1


@dataclass(slots=True, kw_only=True)
class _Feed:
    """Translates the parser's events into calls of a builder."""

    file: str
    builder: ValueBuilder = field(default_factory=ValueBuilder)
    meanings: _Meanings
    _last: Location | None = None

    def run(self, loader: yaml.CSafeLoader) -> None:
        documents = 0
        for event in iter(loader.get_event, None):
            if isinstance(event, yaml.ScalarEvent):
                self._scalar(event, loader)
            elif isinstance(event, yaml.CollectionStartEvent):
                mapping = isinstance(event, yaml.MappingStartEvent)
                opaque = None if event.tag in _USUAL else _tag_name(event.tag)
                self.builder.open(self._where(event), mapping=mapping, anchor=event.anchor, opaque=opaque)
            elif isinstance(event, yaml.CollectionEndEvent):
                self.builder.close()
            elif isinstance(event, yaml.AliasEvent):
                self.builder.alias(self._where(event), str(event.anchor))
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    text = "a second document begins here; an inventory file holds one"
                    self.builder.problem(self._where(event), text, "move it to a separate file")
                    return

    def refusal(self, line: int, text: str, hint: str | None = None) -> Problem:
        return Problem(where=Location(file=self.file, line=line), text=text, hint=hint)

    def _scalar(self, event: yaml.ScalarEvent, loader: yaml.CSafeLoader) -> None:
        text, tag, opaque = event.value, event.tag, None
        data: Plain = text
        merge = False
        if event.implicit[0]:
            data, merge = self.meanings.get(text) or self._meaning(text, loader)
        elif tag in _NUMBERS:
            data = _construct(tag, text)
        elif tag not in _TEXTS:
            opaque = _tag_name(tag)
        self.builder.scalar(Value(self._where(event), data, text, opaque), anchor=event.anchor, merge=merge)

    def _meaning(self, text: str, loader: yaml.CSafeLoader) -> tuple[Plain, bool]:
        tag: str = loader.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]  # PyYAML's
        meaning = self.meanings[text] = (_construct(tag, text) if tag in _NUMBERS else text, tag == _MERGE)
        return meaning

    def _where(self, event: yaml.Event) -> Location:
        mark = event.start_mark
        line = mark.line + 1 if mark is not None else 1
        if self._last is None or line != self._last.line:
            self._last = Location(self.file, line)
        return self._last


def _construct(tag: str, text: str) -> Plain:
    """The value that PyYAML, and so Ansible, reads from a plain scalar (22:30 is a number in YAML 1.1).

    Text longer than any number that we expect stays text: 400 KB of 1:1:1:… would take PyYAML 39 s.
    """
    if len(text) > _LONGEST_NUMBER:
        return text
    try:
        value: Plain = yaml.constructor.SafeConstructor().construct_object(yaml.ScalarNode(tag, text))
    except (ValueError, KeyError, IndexError, OverflowError):
        return text
    return value


def _tag_name(tag: str | None) -> str:
    return "!vault" if tag in {"!vault", "!vault-encrypted"} else str(tag)
