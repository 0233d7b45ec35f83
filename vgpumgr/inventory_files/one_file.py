"""One YAML file that an option names, or stdin, read as an inventory's files are: every mistake with its line."""

from __future__ import annotations

import errno
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr import files
from vgpumgr.core.inventory import Location, Value
from vgpumgr.errors import InventoryError, UsageError
from vgpumgr.inventory_files.reader import MAX_BYTES, read_yaml
from vgpumgr.wording import say

if TYPE_CHECKING:
    from vgpumgr.core.inventory.report import Report
    from vgpumgr.wording import Option

STDIN = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFile:
    """The file that `option` names; - is stdin. `what`: what it is in a message (a file of VMs)."""

    path: str
    option: Option
    what: str

    @property
    def name(self) -> str:
        return "<stdin>" if self.path == STDIN else self.path

    def content(self, report: Report) -> Value | None:
        """The YAML's content. If it is not YAML, reports that and returns None. Raises UsageError."""
        text = self._text()
        if text.startswith("$ANSIBLE_VAULT;"):
            raise UsageError(
                say("{}: {} is encrypted with ansible-vault, which is not decrypted here", self.option, self.name),
                hint="write it in plain text",
            )
        content, problems = read_yaml(text, self.name)
        report.extend(problems, ())
        if content is None and not problems:  # nothing at all, or only comments
            return Value(where=Location(file=self.name, line=1), data=None)
        return content

    def guard(self, report: Report, so: str, help_text: str) -> None:
        """Raises InventoryError if there are problems. `so`: what came of it; `help_text`: where to look."""
        problems = report.problems()
        if problems:
            count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
            raise InventoryError(
                f"{count} in {self.name}; {so}",
                hint=f"correct the lines above; {help_text}",
                details=[str(problem) for problem in problems],
            )

    def _text(self) -> str:
        if self.path == STDIN and sys.stdin is None:  # <&-
            raise UsageError(say("{}: stdin is closed", self.option), hint=f"name {self.what}, or give one to stdin")
        try:
            if self.path == STDIN:
                data = files.bounded(sys.stdin.buffer.read(MAX_BYTES + 1), MAX_BYTES)
            else:
                data = files.read_bytes(self.path, MAX_BYTES)
        except OSError as error:
            large = error.errno == errno.EFBIG
            hint = "split it into several files" if large else f"name {self.what}, or - for stdin"
            raise UsageError(
                say("{}: {} cannot be read: {}", self.option, self.name, error.strerror), hint=hint
            ) from error
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise UsageError(
                say("{}: {}: not UTF-8 text", self.option, f"{self.name}:{line}"), hint="save it as UTF-8"
            ) from error
