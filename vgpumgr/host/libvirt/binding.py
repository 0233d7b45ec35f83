"""The libvirt calls of this program, over the host's libvirt.so.0.

Every host that runs libvirt has that library, since its daemons and tools use it; libvirt's Python package may be
missing. tests/unit/host/libvirt/test_binding.py compares the constants and the calls' results with libvirt-python's, on
libvirt's own test driver. The declarations are those of libvirt's headers (libvirt-domain.h, libvirt-host.h,
virterror.h); the newest of these calls is virGetLastErrorCode, of libvirt 4.5 (the symbol's version in the library).

Calls cannot be interrupted and have no deadline. No document is dumped with VIR_DOMAIN_XML_SECURE: it adds passwords.
"""

from ctypes import CDLL, CFUNCTYPE, POINTER, byref, c_char_p, c_int, c_uint, c_ulong, c_void_p, create_string_buffer
from ctypes import cast as cast_pointer
from typing import Any, Dict, List, Optional, Sequence, Tuple

LIST_ACTIVE = 1 << 0
LIST_INACTIVE = 1 << 1
LIST_TRANSIENT = 1 << 3
LIST_MANAGED_SAVE = 1 << 8
LIST_AUTOSTART = 1 << 10
LIST_HAS_SNAPSHOT = 1 << 12
XML_INACTIVE = 1 << 1
METADATA_ELEMENT = 2
AFFECT_LIVE = 1 << 0
AFFECT_CONFIG = 1 << 1
START_FAILED = (5, 6)  # VIR_DOMAIN_SHUTOFF, VIR_DOMAIN_SHUTOFF_FAILED
NO_DOMAIN = 42  # VIR_ERR_NO_DOMAIN
NO_DOMAIN_METADATA = 80  # VIR_ERR_NO_DOMAIN_METADATA
_UUID_BYTES = 37  # VIR_UUID_STRING_BUFLEN
_LIBRARY = "libvirt.so.0"
SYSTEM = "qemu:///system"

_Handler = CFUNCTYPE(None, c_void_p, c_void_p)
_SILENT = _Handler(lambda _data, _error: None)  # without a handler libvirt prints every error to stderr
_POINTERS = POINTER(c_void_p)

# name → its result, then its arguments
_CALLS: Dict[str, Tuple[Any, ...]] = {
    "virSetErrorFunc": (None, c_void_p, _Handler),
    "virGetLastErrorCode": (c_int,),
    "virGetLastErrorMessage": (c_char_p,),
    "virConnectOpen": (c_void_p, c_char_p),
    "virConnectClose": (c_int, c_void_p),
    "virConnectIsAlive": (c_int, c_void_p),
    "virConnectGetLibVersion": (c_int, c_void_p, POINTER(c_ulong)),
    "virConnectListAllDomains": (c_int, c_void_p, POINTER(_POINTERS), c_uint),
    "virDomainLookupByUUIDString": (c_void_p, c_void_p, c_char_p),
    "virDomainFree": (c_int, c_void_p),
    "virDomainGetName": (c_char_p, c_void_p),
    "virDomainGetUUIDString": (c_int, c_void_p, c_char_p),
    "virDomainGetXMLDesc": (c_void_p, c_void_p, c_uint),
    "virDomainGetState": (c_int, c_void_p, POINTER(c_int), POINTER(c_int), c_uint),
    "virDomainCreate": (c_int, c_void_p),
    "virDomainHasManagedSaveImage": (c_int, c_void_p, c_uint),
    "virDomainManagedSaveGetXMLDesc": (c_void_p, c_void_p, c_uint),
    "virDomainListAllSnapshots": (c_int, c_void_p, POINTER(_POINTERS), c_uint),
    "virDomainSnapshotFree": (c_int, c_void_p),
    "virDomainSnapshotGetName": (c_char_p, c_void_p),
    "virDomainSnapshotGetXMLDesc": (c_void_p, c_void_p, c_uint),
    "virDomainSetMetadata": (c_int, c_void_p, c_int, c_char_p, c_char_p, c_char_p, c_uint),
    "virDomainAttachDeviceFlags": (c_int, c_void_p, c_char_p, c_uint),
    "virDomainDetachDeviceFlags": (c_int, c_void_p, c_char_p, c_uint),
}


class LibvirtError(Exception):
    """A refusal: libvirt's error code and message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Library:
    """The library, loaded. Raises OSError if the host has none, AttributeError if it is too old."""

    def __init__(self) -> None:
        self._calls = CDLL(_LIBRARY)
        for name, (result, *arguments) in _CALLS.items():
            call = getattr(self._calls, name)
            call.restype, call.argtypes = result, arguments
        self._free = CDLL(None).free
        self._free.restype, self._free.argtypes = None, [c_void_p]
        self._calls.virSetErrorFunc(None, _SILENT)

    def open(self, uri: str = SYSTEM) -> "Connection":
        """A connection, by default to the system's QEMU driver, wherever it listens. Raises LibvirtError."""
        return Connection(self, self.call("virConnectOpen", uri.encode()))

    def call(self, name: str, *arguments: Any) -> Any:
        """The result. Raises LibvirtError if it is null, or negative."""
        value = getattr(self._calls, name)(*arguments)
        if value is None or (isinstance(value, int) and value < 0):
            message = self._calls.virGetLastErrorMessage() or b""
            raise LibvirtError(self._calls.virGetLastErrorCode(), _text(message))
        return value

    def text(self, name: str, *arguments: Any) -> str:
        """The text that a call returns; libvirt's copy is freed. Raises LibvirtError."""
        pointer = self.call(name, *arguments)
        try:
            return _text(cast_pointer(pointer, c_char_p).value or b"")
        finally:
            self._free(pointer)

    def listing(self, name: str, of: int, flags: int) -> List[int]:
        """The objects that a call lists; the caller frees them. Raises LibvirtError."""
        array = _POINTERS()
        count = self.call(name, of, byref(array), flags)
        try:
            return [array[position] or 0 for position in range(count)]
        finally:
            self._free(array)


class Connection:
    """An open connection, for one thread at a time."""

    def __init__(self, library: Library, pointer: int) -> None:
        self._library = library
        self._pointer = pointer

    def close(self) -> None:
        self._library.call("virConnectClose", self._pointer)

    @property
    def alive(self) -> bool:
        try:
            return bool(self._library.call("virConnectIsAlive", self._pointer) == 1)
        except LibvirtError:
            return False

    def version(self) -> int:
        """The host's libvirt: 9000000 is 9.0.0. Raises LibvirtError."""
        number = c_ulong()
        self._library.call("virConnectGetLibVersion", self._pointer, byref(number))
        return number.value

    def domains(self, flags: int = 0) -> "List[Domain]":
        """The domains that the flags select; 0 selects all. Raises LibvirtError."""
        pointers = self._library.listing("virConnectListAllDomains", self._pointer, flags)
        return [Domain(self._library, pointer) for pointer in pointers]

    def lookup(self, uuid: str) -> "Domain":
        """The domain with that UUID. Raises LibvirtError(NO_DOMAIN)."""
        pointer = self._library.call("virDomainLookupByUUIDString", self._pointer, uuid.encode("ascii"))
        return Domain(self._library, pointer)


class Domain:
    """One domain, as it was listed or looked up. Each call asks libvirt again, and raises LibvirtError."""

    def __init__(self, library: Library, pointer: int) -> None:
        self._library = library
        self._pointer = pointer
        self.name = _text(library.call("virDomainGetName", pointer))
        uuid = create_string_buffer(_UUID_BYTES)
        library.call("virDomainGetUUIDString", pointer, uuid)
        self.uuid = uuid.value.decode("ascii")

    def free(self) -> None:
        self._library.call("virDomainFree", self._pointer)

    def xml(self, flags: int = 0) -> str:
        return self._library.text("virDomainGetXMLDesc", self._pointer, flags)

    def state(self) -> Tuple[int, int]:
        """Its state and the reason for it: virDomainState, and the enumeration that belongs to the state."""
        state, reason = c_int(), c_int()
        self._library.call("virDomainGetState", self._pointer, byref(state), byref(reason), 0)
        return state.value, reason.value

    def start(self) -> None:
        """Start it from its definition, or from its managed-save image if it has one."""
        self._library.call("virDomainCreate", self._pointer)

    def image_xml(self) -> Optional[str]:
        """The XML in its managed-save image; None if it has none."""
        if not self._library.call("virDomainHasManagedSaveImage", self._pointer, 0):
            return None
        return self._library.text("virDomainManagedSaveGetXMLDesc", self._pointer, 0)

    def snapshots(self) -> List[Tuple[str, str]]:
        """The name and XML of each snapshot."""
        pointers: Sequence[int] = self._library.listing("virDomainListAllSnapshots", self._pointer, 0)
        try:
            return [
                (
                    _text(self._library.call("virDomainSnapshotGetName", pointer)),
                    self._library.text("virDomainSnapshotGetXMLDesc", pointer, 0),
                )
                for pointer in pointers
            ]
        finally:
            for pointer in pointers:
                self._library.call("virDomainSnapshotFree", pointer)

    def set_metadata(self, xml: Optional[str], *, key: str, uri: str) -> None:
        """Write that element (without prefix and xmlns) into the persistent definition; None removes it."""
        text = None if xml is None else xml.encode("utf-8")
        self._library.call(
            "virDomainSetMetadata",
            self._pointer,
            METADATA_ELEMENT,
            text,
            key.encode("utf-8"),
            uri.encode("utf-8"),
            AFFECT_CONFIG,
        )

    def attach_device(self, xml: str, affect: int) -> None:
        """Add a device to the persistent definition, or to the running domain."""
        self._library.call("virDomainAttachDeviceFlags", self._pointer, xml.encode("utf-8"), affect)

    def detach_device(self, xml: str, affect: int) -> None:
        """Remove a device from the persistent definition, or ask the running domain's guest to release it."""
        self._library.call("virDomainDetachDeviceFlags", self._pointer, xml.encode("utf-8"), affect)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
