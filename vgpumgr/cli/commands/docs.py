"""The commands docs and version: what the program says about itself.

Both work without an inventory, and contact no host.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import candidates
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.things import TOPICS, VERSIONS
from vgpumgr.cli.text import output

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings


@click.command()
@click.argument("topic", required=False, metavar="[TOPIC]", shell_complete=candidates.topics)
@common_options
def docs(settings: Settings, *, topic: str | None) -> int:
    """Read the documentation of this version: a page, or the list of pages.

    \b
      vgpumgr docs
      vgpumgr docs exit-codes
      vgpumgr docs inventory | less

    On a terminal the page is drawn and shown by $PAGER; elsewhere it is Markdown, as in docs/.
    """
    from vgpumgr import resources
    from vgpumgr.documents import offline as documents

    if topic is None:
        rows = [{"name": name, "title": title(text)} for name, text in resources.pages().items()]
        printing.print_rows(settings, TOPICS, documents.docs(rows))
        return 0
    name, text = _page(resources.pages(), topic)
    if settings.output not in (None, "table", "wide"):
        row = {"name": name, "title": title(text), "text": text}
        printing.print_rows(settings, TOPICS, documents.docs([row]))
    elif output.is_terminal(sys.stdout):
        from vgpumgr.cli.text import pages

        pages.show(text, width=output.width(), colored=output.wants_colour(settings, sys.stdout))
    else:
        output.block(text.rstrip("\n"))
    return 0


@click.command()
@common_options
def version(settings: Settings) -> int:
    """The versions of the tool, of the protocol that it speaks with its host program, and of Python.

    \b
      vgpumgr version
      vgpumgr version -o json
    """
    from vgpumgr.cli.wiring import versions
    from vgpumgr.documents import offline as documents

    printing.print_rows(settings, VERSIONS, documents.version(versions()))
    return 0


def title(markdown: str) -> str:
    """A page's first heading."""
    return markdown.partition("\n")[0].removeprefix("# ")


def _page(pages: dict[str, str], topic: str) -> tuple[str, str]:
    """The name and text of a page. `docs/exit-codes.md` means the page `exit-codes`, too. Raises UnknownName."""
    from vgpumgr import errors, names

    name = topic.removeprefix("docs/").removesuffix(".md")
    if name not in pages:
        near = names.nearest(name, pages)
        raise errors.UnknownName(
            f"no page {topic!r}", hint=f"did you mean {near}?" if near else "`vgpumgr docs` lists the pages"
        )
    return name, pages[name]
