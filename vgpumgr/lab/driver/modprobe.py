"""The options with which modprobe would load the nvidia module: the `options` lines of a host's /etc/modprobe.d.

Files are read in the order of their names, lines in file order. The last value of a repeated parameter counts, as with
any of the kernel's string parameters. Source: modprobe.d(5), and lib/cmdline.c for the quotes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vgpumgr.lab.driver.model import ModuleOptions

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_WORD = re.compile(r'(?:[^\s"]|"[^"]*")+')


def read(folder: Path) -> ModuleOptions:
    """The options from the .conf files of that directory. Links are left out: they would lead out of the host."""
    files = sorted(file for file in folder.glob("*.conf") if file.is_file() and not file.is_symlink())
    return parse(file.read_text(encoding="utf-8", errors="replace") for file in files)


def parse(texts: Iterable[str]) -> ModuleOptions:
    """The options from the files' texts, in order."""
    parameters: dict[str, str] = {}
    for text in texts:
        for line in text.replace("\\\n", "").splitlines():
            if line.lstrip().startswith("#"):
                continue
            words = _WORD.findall(line)
            if words[:2] == ["options", "nvidia"]:
                parameters.update(_parameter(word) for word in words[2:])
    return ModuleOptions(
        registry_dwords=parameters.get("NVreg_RegistryDwords", ""),
        registry_dwords_per_device=parameters.get("NVreg_RegistryDwordsPerDevice", ""),
    )


def _parameter(word: str) -> tuple[str, str]:
    """Split a parameter into name and value. It is `name=value`, `name="value"` or `"name=value"`."""
    name, _, value = word.strip('"').partition("=")
    return name, value.strip('"')
