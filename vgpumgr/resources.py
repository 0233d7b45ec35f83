"""Reads the files shipped with the package: templates, documentation, the type catalogue, the host program's source.

In a wheel templates and documentation are in vgpumgr/_data, in a checkout in templates/ and docs/ beside the package.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vgpumgr.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Not importlib.resources: it reads zipped packages, which this one never is, and so it imports zipfile, bz2, lzma …
_PACKAGE = Path(__file__).resolve().parent


def template_text(name: str) -> str:
    """The text of templates/NAME. Raises TemplateError if there is none."""
    for folder in _places("templates"):
        file = folder / name
        if file.is_file():
            return file.read_text(encoding="utf-8")
    raise TemplateError(f"no template {name!r} in this installation", hint="install vgpumgr again")


def pages() -> dict[str, str]:
    """The documentation's pages by name, sorted: the Markdown of docs/*.md, without the comments (for tests)."""
    docs = next((folder for folder in _places("docs") if folder.is_dir()), None)
    files = sorted(docs.glob("*.md"), key=lambda file: file.stem) if docs is not None else []
    return {file.stem: _without_comments(file.read_text(encoding="utf-8")) for file in files}


def schemas() -> dict[str, str]:
    """The JSON schemas of docs/schemas by name (`list-1`), sorted. Raises TemplateError if there is none."""
    for folder in _places("docs"):
        files = sorted((folder / "schemas").glob("*.json"))
        if files:
            return {file.stem: file.read_text(encoding="utf-8") for file in files}
    raise TemplateError("no schemas in this installation", hint="install vgpumgr again")


def _without_comments(markdown: str) -> str:
    return "".join(line for line in markdown.splitlines(keepends=True) if not line.startswith("<!-- "))


def _places(folder: str) -> tuple[Path, Path]:
    return _PACKAGE / "_data" / folder, _PACKAGE.parent / folder


def catalogue_text() -> str:
    """vgpu-types.csv: the vGPU types of NVIDIA's boards, from public sources (named in its last column)."""
    return (_PACKAGE / "data" / "vgpu-types.csv").read_text(encoding="utf-8")


def alert_rules() -> str:
    """alerts.yml: alerts on our metrics, as Prometheus reads them."""
    return (_PACKAGE / "data" / "alerts.yml").read_text(encoding="utf-8")


def beliefs() -> str:
    """beliefs.csv: what vgpumgr believes of NVIDIA's driver and only a host with hardware can tell."""
    return (_PACKAGE / "data" / "beliefs.csv").read_text(encoding="utf-8")


def host_sources() -> dict[str, bytes]:
    """The host program's modules as {"vgpumgr_host/PATH.py": source}. On the host it imports itself under that name."""
    return dict(sorted(_sources(_PACKAGE / "host", "vgpumgr_host")))


def _sources(folder: Path, name: str) -> Iterator[tuple[str, bytes]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _sources(item, f"{name}/{item.name}")
        elif item.name.endswith(".py"):
            yield f"{name}/{item.name}", item.read_bytes()
