"""vgpumgr: NVIDIA vGPUs for libvirt VMs, requested by profile and kept as declared, on plain KVM hosts over SSH."""

__version__ = "0.1.0"
