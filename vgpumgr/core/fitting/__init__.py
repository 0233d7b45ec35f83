"""Whether vGPUs fit on empty GPUs together, from NVIDIA's list alone: no host, no snapshot."""
