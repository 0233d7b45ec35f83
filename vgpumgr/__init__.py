"""vgpumgr: NVIDIA vGPUs for libvirt VMs, asked for by profile, kept as declared, on plain KVM hosts over SSH."""

__version__ = "0.1.0"
