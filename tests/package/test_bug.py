"""A bug ends as an error with an exit code, not as a traceback."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli import main, wiring

if TYPE_CHECKING:
    import pytest


def test_an_unexpected_exception_is_one_readable_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise TypeError("boom")

    monkeypatch.setattr(wiring, "load_inventory", broken)
    assert main.run(["list"]) == 1
    said = capsys.readouterr().err
    assert "unexpected TypeError: boom" in said
    assert "Traceback" not in said
