"""The collection by Ansible's own judgement: built, installed and verified offline, documented, sane, and without a lint.

ansible-test wants packages of PyPI for its tests, in versions that it pins itself: it takes them once, into .cache/collection.
All that is judged here runs in a namespace without a network.
"""

from __future__ import annotations

import json
import re
import sys
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.collection.built import PYTHON, SOURCE, fill, must, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.collection.built import Built

pytestmark = [pytest.mark.collection, pytest.mark.timeout(900)]

MODULES = ("vgpu", "vgpu_info", "vgpu_reconcile")
# What ansible-core 2.19 has; it says which it runs.
SANITY = [
    *("action-plugin-docs", "ansible-doc", "changelog", "compile", "empty-init", "ignores", "import", "line-endings"),
    *("no-assert", "no-get-exception", "no-illegal-filenames", "no-smart-quotes", "pep8", "pslint", "pylint"),
    *("replace-urlopen", "runtime-metadata", "shebang", "shellcheck", "symlinks", "use-argspec-type-path"),
    *("use-compat-six", "validate-modules", "yamllint"),
]


def sanity(built: Built, *tests: str) -> tuple[int, str]:
    """Exit code and output of ansible-test."""
    chosen = [word for test in tests for word in ("--test", test)]
    done = run("ansible-test", "sanity", "--python", PYTHON, *chosen, cwd=built.folder)
    return done.returncode, done.stdout + done.stderr


def replace_in(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_the_artifact_holds_what_users_need_and_nothing_of_ours(collection: Built) -> None:
    with tarfile.open(collection.artifact) as archive:
        names = set(archive.getnames())
    assert {f"plugins/{kind}/{name}.py" for kind in ("modules", "action") for name in MODULES} <= names
    assert {
        "COPYING",
        "README.md",
        "meta/runtime.yml",
        "playbooks/attach.yml",
        "playbooks/nightly.yml",
        "playbooks/monitoring.yml",
    } <= names
    assert not [name for name in names if re.search(r"ansible-lint|__pycache__|\.pyc$|tests/output|\.tar", name)]


def test_what_is_installed_is_what_was_built(collection: Built) -> None:
    must(
        "ansible-galaxy",
        "collection",
        "verify",
        "--offline",
        "vgpumgr.kvm",
        cwd=collection.paths,
        paths=collection.paths,
    )


@pytest.mark.parametrize("module", MODULES)
def test_every_module_is_documented_with_the_shared_options_and_its_action(collection: Built, module: str) -> None:
    name = f"vgpumgr.kvm.{module}"
    told = must("ansible-doc", "-t", "module", "--json", name, cwd=collection.paths, paths=collection.paths)
    found: dict[str, Any] = json.loads(told)[name]
    assert found["doc"]["has_action"] is True
    assert found["doc"]["options"]["inventory"]["type"] == "path"
    assert found["doc"]["attributes"]["check_mode"]["support"] == "full"
    assert found["doc"]["attributes"]["action_group"]["membership"] == ["vgpumgr.kvm.vgpumgr"]
    examples = yaml.safe_load(found["examples"])
    used = [key for task in examples for key in task if key.startswith("vgpumgr.kvm.")]
    assert name in used
    assert found["return"]


def test_every_module_is_in_the_action_group_and_in_the_changelog(collection: Built) -> None:
    runtime = yaml.safe_load((collection.folder / "meta/runtime.yml").read_text(encoding="utf-8"))
    changes = yaml.safe_load((collection.folder / "changelogs/changelog.yaml").read_text(encoding="utf-8"))
    about = json.loads((collection.folder / "MANIFEST.json").read_text(encoding="utf-8"))["collection_info"]
    assert runtime["requires_ansible"] == ">=2.19.0"
    assert runtime["action_groups"] == {"vgpumgr": list(MODULES)}
    assert about["version"] in changes["releases"]
    assert about["license"] == ["GPL-3.0-or-later"]
    assert {row["name"] for release in changes["releases"].values() for row in release["modules"]} == set(MODULES)


def test_all_sanity_tests_pass_without_a_network(collection: Built, capsys: pytest.CaptureFixture[str]) -> None:
    fill(collection)
    code, told = sanity(collection)
    ran = re.findall(r'Running sanity test "([\w-]+)"(?: on Python ([\d.]+))?', told)
    assert code == 0, told
    assert sorted({test for test, _ in ran}) == SANITY
    assert {python for _, python in ran if python} == {PYTHON}
    with capsys.disabled():  # what was not tested is to be seen as well: no other Python was
        sys.stdout.write(f"\n{len(SANITY)} sanity tests passed; compile and import on Python {PYTHON}\n")


@pytest.mark.parametrize(
    ("test", "file", "old", "new", "told"),
    [
        ("validate-modules", "module_utils/specs.py", '"vgpu0"', '"vgpu1"', "doc-default-does-not-match-spec"),
        ("import", "action/vgpu.py", "class ActionModule", "import vgpumgr\n\n\nclass ActionModule", "vgpumgr"),
    ],
    ids=["validate-modules", "import"],
)
def test_a_sanity_test_finds_what_is_broken(  # noqa: PLR0917 -- the case
    own: Built, test: str, file: str, old: str, new: str, told: str
) -> None:
    """This shows that the check reads our files at all."""
    fill(own)
    replace_in(own.folder / "plugins" / file, old, new)
    code, output = sanity(own, test)
    assert code != 0
    assert told in output


def test_ansible_lint_has_nothing_against_it_by_its_strictest_profile(collection: Built) -> None:
    options = ("--profile", "production", "--offline", "--nocolor", "--config-file", SOURCE / ".ansible-lint")
    done = run("ansible-lint", *options, cwd=collection.folder, paths=collection.paths)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"Passed: 0 failure\(s\), 0 warning\(s\) in (\d+) files", done.stderr + done.stdout)
    assert passed is not None
    assert int(passed[1]) >= 15


def test_ansible_lint_finds_what_is_broken(own: Built) -> None:
    replace_in(own.folder / "playbooks/nightly.yml", "vgpumgr.kvm.vgpu_reconcile", "vgpumgr.kvm.vgpu_reconciled")
    options = ("--profile", "production", "--offline", "--nocolor", "--config-file", SOURCE / ".ansible-lint")
    done = run("ansible-lint", *options, cwd=own.folder, paths=own.paths)
    assert done.returncode != 0
    assert "vgpu_reconciled" in done.stdout + done.stderr
