"""What advise refuses before it reads a host or a sample. What it says: tests/acceptance/test_advise.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.controller import nowhere
from vgpumgr import errors
from vgpumgr.controller.advise import advise
from vgpumgr.store.sql.samples import Samples

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("texts", "on", "wrong"), [(("vm[20:01]",), None, errors.BadName), ((), "kvm09", errors.UnknownHost)]
)
def test_a_wrong_name_is_refused_before_anything_is_read(
    texts: tuple[str, ...], on: str | None, wrong: type[errors.VgpumgrError], tmp_path: Path
) -> None:
    samples = Samples(tmp_path / "none.sqlite")
    with pytest.raises(wrong):
        advise(nowhere.context("kvm01"), samples, texts, on, now_s=0.0, since_s=60.0)
    assert list(tmp_path.iterdir()) == []
