"""Each known line, as it was seen or stands in the source, has a meaning; what only looks like one has none."""

from __future__ import annotations

import re

import pytest

from vgpumgr.core.driver import log_lines

SEEN = {
    "kernel: NVRM: Xid (PCI:0000:41:00): 79, pid=1234, GPU has fallen off the bus.": "fallen off the bus",
    "kernel: NVRM: Xid (PCI:0000:41:00): 95, pid='<unknown>', Uncontained ECC error": "cannot be corrected",
    "kernel: NVRM: Xid (PCI:0000:41:00): 119, pid=7, Timeout after 6s of waiting for RPC response from GPU0 GSP!": "GSP",
    "kernel: NVRM: Xid (PCI:0000:41:00): 74, pid=7, NVLink: fatal error detected on link 6": "NVLink",
    "kernel: NVRM: Failed to add vgpu create request: 0x38": "no GPU instance",
    "kernel: NVRM: Failed to add vgpu create request: 0x56": "another size, or the GPU is full",
    "kernel: [nvidia-vgpu-vfio] a581675d-19eb-4f50-aa64-6aeb378c58c3: start failed. status: 0x0 Timeout Occured": "is it running?",
    "kernel: [nvidia-vgpu-vfio] 0000:15:00.6: start failed. status: 0x1": "own lines say why",
    "kernel: [nvidia-vgpu-vfio] a581675d-19eb-4f50-aa64-6aeb378c58c3: VF FLR failed during close -25": "rebooted",
    "kernel: vfio_pci_core_device not found": "SR-IOV off and on",
    "kernel: [nvidia-vgpu-vfio] Failed to destroy vGPU device": "the driver has lost it",
    "kernel: [nvidia-vgpu-vfio] Failed to remove vGPU. No vGPU exists on current device": "something else removed it",
    "kernel: NVRM: GPU 0000:41:00.0: RmInitAdapter failed! (0x22:0x65:884)": "cannot start the GPU",
    "kernel: NVRM: API mismatch: the client has the version 550.90.05, but": "reboot the host",
    "kernel: nvidia 0000:41:00.0: not enough MMIO resources for SR-IOV": "Above 4G",
    "nvidia-vgpu-mgr: error: vmiop_env_log: Failed to initialize RM client: 0x26": "does not find the driver",
    "nvidia-vgpud: error: failed to send vGPU configuration info to RM: 6": "no vGPU types",
}


@pytest.mark.parametrize("line", SEEN)
def test_a_known_line_is_explained(line: str) -> None:
    assert SEEN[line] in (log_lines.meaning(line) or "")


def test_every_row_explains_some_line_before_the_rows_behind_it() -> None:
    assert {log_lines.meaning(line) for line in SEEN} == {text for _, _, text in log_lines._KNOWN}
    sources = (log_lines.__doc__ or "").partition("Sources")[2]
    assert {source for _, source, _ in log_lines._KNOWN} <= set(re.findall(r"\b[A-Z]\b", sources))


@pytest.mark.parametrize(
    "line", ["kernel: NVRM: Xid (PCI:0000:41:00): 7, pid=1", "kernel: NVRM: loading NVIDIA UNIX", ""]
)
def test_another_line_has_no_meaning(line: str) -> None:
    assert log_lines.meaning(line) is None
