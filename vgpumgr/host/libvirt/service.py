"""The host's libvirt, as the rest of this program uses it."""

from typing import TYPE_CHECKING, Callable, Optional

from ..protocol.libvirt import LibvirtFact, LibvirtQuery
from .client import Client
from .domains import begin_reading

if TYPE_CHECKING:
    from ..protocol.steps import DefinitionStep


class Libvirt:
    """The host's libvirt. One connection serves for reading and for changes."""

    def __init__(self, client: Optional[Client] = None) -> None:
        self._client = client or Client()

    def begin_reading(self, query: LibvirtQuery) -> Callable[[], LibvirtFact]:
        """Start to read what `query` asks for. Returns a function that waits for the answer."""
        return begin_reading(self._client, query)

    def change(self, step: "DefinitionStep", wait_s: float) -> None:
        """Change a domain's definition. Raises Refusal(LibvirtRefused)."""
        from .definitions import change  # a session that only looks does without it

        change(self._client, step, wait_s)
