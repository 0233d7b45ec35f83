"""The file of `fit --requests`: one question, or a list of them, also on stdin."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import pytest

from vgpumgr import resources
from vgpumgr.core.driver import catalogue
from vgpumgr.core.fitting.asked import Empty, Pool
from vgpumgr.errors import UsageError
from vgpumgr.inventory_files import one_file, requests_file

if TYPE_CHECKING:
    from pathlib import Path

TYPES = catalogue.parse(resources.catalogue_text())
ONE = b'{"gpus": [{"board": "A40"}], "requests": [{"profile": "8Q"}, {"profile": "8Q", "count": 2}]}'
POOL = Pool(gpus=(Empty(board="A40"),), requests=(("8Q", 3),))


def test_a_question_or_a_list_of_questions_stands_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "asked.json"
    file.write_bytes(ONE)
    assert requests_file.load(str(file), TYPES) == (POOL,)
    file.write_bytes(b"[" + ONE + b"," + ONE + b"]")
    assert requests_file.load(str(file), TYPES) == (POOL, POOL)


def test_stdin_is_read_as_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(ONE)))
    assert requests_file.load(one_file.STDIN, TYPES) == (POOL,)


def test_a_file_that_is_not_there_is_named_with_the_option() -> None:
    with pytest.raises(UsageError, match=r"--requests: nowhere.yml cannot be read"):
        requests_file.load("nowhere.yml", TYPES)
