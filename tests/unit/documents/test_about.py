"""What the program says of itself, as documents: they are what their schemas say."""

from __future__ import annotations

from tests.unit.documents import published
from vgpumgr.documents import docs, version


def test_a_list_of_pages_has_no_texts_and_a_page_has_its_own() -> None:
    page = {"name": "words", "title": "Words"}
    document = docs.document([page, {**page, "text": "# Words\n"}])
    assert document["topics"] == [{**page, "text": None}, {**page, "text": "# Words\n"}]
    assert published.problems("docs", document) == []


def test_versions_are_by_name() -> None:
    document = version.document({"vgpumgr": "0.1.0", "protocol": "5", "python": "3.11.2"})
    assert document["versions"] == {"vgpumgr": "0.1.0", "protocol": "5", "python": "3.11.2"}
    assert published.problems("version", document) == []
