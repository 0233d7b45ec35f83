"""Old words and habits of ours that are not to come back: each with its better word, in tools/words.txt.

    python tools/words.py [FILE …]        # without files: everything that the list is about

A line of the list is `scope | pattern | better`. `text` is what operators read: documents, templates, help, messages.
`prose` adds docstrings and comments. `name` is a whole identifier of product code. A line that begins with `off` waits.
"""

from __future__ import annotations

import ast
import hashlib
import io
import re
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tools" / "words.txt"
CLEAN = ROOT / ".cache" / "words"
PRODUCT = ("vgpumgr", "ansible/plugins", "plugins")
TEXTS = (
    "README.md",
    "DEVELOPING.md",
    "docs/**/*.md",
    "docs/**/*.json",
    "templates/*",
    "ansible/*.md",
    "ansible/playbooks/*",
)
SCOPES = ("text", "prose", "name")
# It defines our words, and so it names them.
_LEFT_OUT = ("docs/words.md",)
# Their docstrings are what `--help` prints.
_HELP = ("vgpumgr/cli/commands/", "vgpumgr/cli/main.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One line of the list."""

    scope: str
    pattern: re.Pattern[str]
    better: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A stretch of a file: its scope is the narrowest that covers it."""

    scope: str
    line: int
    text: str


def read_list(text: str) -> tuple[Word, ...]:
    """The words of a list. Raises ValueError for a line that is none."""
    words = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith(("#", "off ")):
            continue
        parts = [part.strip() for part in line.split(" | ")]
        if len(parts) != 3 or parts[0] not in SCOPES or not all(parts):
            raise ValueError(f"words.txt:{number}: not `scope | pattern | better`: {line}")
        scope, pattern, better = parts
        flags = re.IGNORECASE if pattern == pattern.lower() and scope != "name" else 0
        words.append(Word(scope=scope, pattern=re.compile(pattern, flags), better=better))
    return tuple(words)


def pieces(path: str, text: str) -> Iterator[Piece]:
    """What of a file each scope covers."""
    if not path.endswith(".py"):
        yield Piece(scope="text", line=1, text=text)
        return
    docstrings = set() if path.startswith(_HELP) else _docstrings(text)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line = token.start[0]
        if token.type == tokenize.NAME:
            yield Piece(scope="name", line=line, text=token.string)
        elif token.type == tokenize.COMMENT or (token.type == tokenize.STRING and line in docstrings):
            yield Piece(scope="prose", line=line, text=token.string)
        elif token.type == tokenize.STRING or tokenize.tok_name[token.type] == "FSTRING_MIDDLE":
            yield Piece(scope="text", line=line, text=token.string)


def _docstrings(text: str) -> set[int]:
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node.body for node in ast.walk(ast.parse(text)) if isinstance(node, owners)]
    first = [body[0] for body in bodies if body and isinstance(body[0], ast.Expr)]
    return {node.lineno for node in first if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)}


class Checker:
    """Holds texts against a list of words. A name's words are looked for once, however often it occurs."""

    def __init__(self, words: Iterable[Word]) -> None:
        of = {scope: [word for word in words if word.scope == scope] for scope in SCOPES}
        self._words = {"name": of["name"], "prose": of["prose"], "text": [*of["text"], *of["prose"]]}
        self._any = {scope: _any_of(self._words[scope]) for scope in ("prose", "text")}
        self._names: dict[str, list[Word]] = {}

    def check(self, path: str, text: str) -> list[str]:
        """One line for each word of the list in a file: where, what, and what to write."""
        hits = [(line, term, word) for piece in pieces(path, text) for line, term, word in self._hits(piece)]
        return [
            message
            for _, message in sorted(
                {(line, f"{path}:{line}: `{term}`: write {word.better}") for line, term, word in hits}
            )
        ]

    def _hits(self, piece: Piece) -> Iterator[tuple[int, str, Word]]:
        if piece.scope == "name":
            if piece.text not in self._names:
                self._names[piece.text] = [word for word in self._words["name"] if word.pattern.fullmatch(piece.text)]
            for word in self._names[piece.text]:
                yield piece.line, piece.text, word
        elif self._any[piece.scope].search(piece.text):
            for word in self._words[piece.scope]:
                for match in word.pattern.finditer(piece.text):
                    yield piece.line + piece.text.count("\n", 0, match.start()), " ".join(match[0].split()), word


def _any_of(words: Iterable[Word]) -> re.Pattern[str]:
    """Matches where one of the words does; nothing where there are none."""
    patterns = [f"(?{'i' if word.pattern.flags & re.IGNORECASE else ''}:{word.pattern.pattern})" for word in words]
    return re.compile("|".join(patterns) or r"(?!)")


def files() -> list[Path]:
    """Everything that the list is about."""
    code = [path for folder in PRODUCT for path in (ROOT / folder).rglob("*.py")]
    texts = [path for glob in TEXTS for path in ROOT.glob(glob)]
    return sorted(path for path in {*code, *texts} if path.is_file() and str(path.relative_to(ROOT)) not in _LEFT_OUT)


def main(named: list[str]) -> int:
    """Print each old word; 1 if there is one. A clean file is not read again until it or the list changes."""
    checker = Checker(read_list(LIST.read_text(encoding="utf-8")))
    rules = hashlib.sha256(LIST.read_bytes() + Path(__file__).read_bytes())
    clean = frozenset(CLEAN.read_text(encoding="utf-8").split()) if CLEAN.is_file() else frozenset()
    findings, hashes = [], set()
    for path in [Path(name).resolve() for name in named] or files():
        name, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
        key = rules.copy()
        key.update(f"{name}\0{text}".encode())
        lines = [] if key.hexdigest() in clean else checker.check(name, text)
        findings += lines
        if not lines:
            hashes.add(key.hexdigest())
    CLEAN.parent.mkdir(exist_ok=True)
    CLEAN.write_text("\n".join(sorted(clean | hashes if named else hashes)), encoding="utf-8")
    sys.stdout.write("".join(f"{line}\n" for line in findings))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
