"""The machines of all cases: each made once and installed anew for every case, since little of its files changes."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests import memory
from tests.model.machine import Machine, writing_in_process


class Pool:
    """A context manager, to be entered as often as one likes: machines within it, no files after it."""

    def __init__(self) -> None:
        self._machines: dict[tuple[str, str], Machine] = {}
        self._open = ExitStack()

    def __enter__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="vgpumgr-model-", dir=memory.folder()))
        self._open.callback(shutil.rmtree, self._folder)
        self._open.callback(self._machines.clear)
        self._open.enter_context(writing_in_process())

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def machine(self, host: str, framework: str) -> Machine:
        """The host of that name with that framework, to be installed."""
        if (host, framework) not in self._machines:
            root = self._folder / f"{host}-{framework}"
            root.mkdir()
            self._machines[host, framework] = Machine(host, framework, root)
        return self._machines[host, framework]


POOL = Pool()
