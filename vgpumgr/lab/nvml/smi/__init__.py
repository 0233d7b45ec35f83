"""nvidia-smi, simulated. Packed into one file by vgpumgr.lab.nvml.nvidia_smi: standard library only, Python 3.9."""
