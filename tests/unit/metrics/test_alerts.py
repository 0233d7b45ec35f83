"""The alert rules that travel with the package: good rules, each fires when it says, and each has its paragraph in the docs."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import yaml

from tests.unit.metrics.prometheus import promtool
from vgpumgr import resources
from vgpumgr.cli.main import run

ROOT = Path(__file__).resolve().parents[3]
CASES = sorted((ROOT / "tests/cases/alerts").glob("*_test.yml"))


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(resources.alert_rules())["groups"] for rule in group["rules"]]


def test_each_alert_fires_when_it_says_and_not_before(tmp_path: Path) -> None:
    """By promtool, over made-up time. Every alert is tried firing and not firing."""
    document = yaml.safe_load(resources.alert_rules())
    for group in document["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]  # words for people; promtool would compare them too
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(document), encoding="utf-8")
    for path in CASES:
        shutil.copyfile(path, tmp_path / path.name)
    promtool("test", "rules", *(path.name for path in CASES), folder=tmp_path)
    tests = [test for path in CASES for test in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]]
    tried = [row for test in tests for row in test["alert_rule_test"]]
    for rule in rules():
        fires = {bool(row["exp_alerts"]) for row in tried if row["alertname"] == rule["alert"]}
        assert fires == {True, False}, rule["alert"]


def test_the_file_is_good_as_it_is_printed(tmp_path: Path, capfdbinary: Any) -> None:
    assert run(["export", "rules"]) == 0
    printed = capfdbinary.readouterr().out
    assert printed.decode() == resources.alert_rules()
    (tmp_path / "vgpumgr.yml").write_bytes(printed)
    assert f"{len(rules())} rules found" in promtool("check", "rules", "vgpumgr.yml", folder=tmp_path)


def test_each_alert_says_how_bad_it_is_and_the_docs_say_what_to_do_about_it() -> None:
    page = resources.pages()["metrics"]
    documented = re.findall(r"^\| `(Vgpu\w+)` \|", page, re.MULTILINE)
    assert documented == [rule["alert"] for rule in rules()]
    for rule in rules():
        assert rule["labels"]["severity"] in {"info", "warning"}
        assert rule["annotations"]["runbook"] == f"vgpumgr docs metrics, {rule['alert']}"
