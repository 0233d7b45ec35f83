"""What stands in a file of questions, read as values with their lines."""

from __future__ import annotations

from vgpumgr import resources
from vgpumgr.core.driver import catalogue
from vgpumgr.core.fitting import asked_file
from vgpumgr.core.fitting.asked import parse
from vgpumgr.core.inventory.report import Report
from vgpumgr.inventory_files.reader import read_yaml

TYPES = catalogue.parse(resources.catalogue_text())


def test_the_example_in_messages_is_what_the_command_line_says_as_text() -> None:
    report = Report()
    content, _ = read_yaml(asked_file.EXAMPLE, "asked.yml")
    assert content is not None
    assert asked_file.read(content, TYPES, report) == parse(TYPES, ["2xA40: 3x8Q"])
    assert report.problems() == ()


def test_a_question_without_gpus_or_requests_is_named() -> None:
    report = Report()
    content, _ = read_yaml("- {gpus: [], requests: [{count: 3}]}", "asked.yml")
    assert content is not None
    asked_file.read(content, TYPES, report)
    assert [one.text for one in report.problems()] == [
        "an entry of requests has no profile",
        "gpus must be a list with at least one entry",
    ]
