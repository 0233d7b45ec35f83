"""The text of the simulated nvidia-smi, a standalone script to be put at /usr/bin/nvidia-smi in a simulated host."""

from __future__ import annotations

from importlib import resources


def nvidia_smi_script() -> str:
    """The script, with its #! line; it needs /usr/bin/python3 (3.9 or later) and nothing else."""
    return resources.files("vgpumgr.lab.nvml").joinpath("smi_script.py").read_text(encoding="utf-8")
