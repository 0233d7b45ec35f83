"""`make check`: the unit tests that it takes for near what was changed."""

from __future__ import annotations

import pytest

from tools import changed

TESTS = {
    "tests/unit/core/plan/test_a.py": "from vgpumgr.core.plan.a import made\n",
    "tests/unit/core/plan/test_b.py": "from vgpumgr.core.plan import a, b\n",
    "tests/unit/core/plan/test_ab.py": "from vgpumgr.core.plan.ab import made\n",
    "tests/unit/cli/test_c.py": "from vgpumgr.core.plan import (\n",
    **{f"tests/unit/cli/test_{number}.py": "from vgpumgr.names import VmName\n" for number in range(40)},
    "tests/unit/test_names.py": "import vgpumgr.names\n",
}


@pytest.mark.parametrize(
    ("names", "tests"),
    [
        (["vgpumgr/core/plan/a.py"], ["tests/unit/core/plan/test_a.py", "tests/unit/core/plan/test_b.py"]),
        (["vgpumgr/core/plan/b.py", "tests/acceptance/test_a.py"], ["tests/unit/core/plan/test_b.py"]),
        (["tests/unit/cli/test_c.py", "tools/words.py"], ["tests/unit/cli/test_c.py"]),
        (["vgpumgr/names.py"], ["tests/unit/test_names.py"]),
    ],
    ids=["who imports it", "and no other", "a test itself", "of what everybody imports those of its folder"],
)
def test_near_is(names: list[str], tests: list[str]) -> None:
    assert changed.near(names, TESTS) == tests
