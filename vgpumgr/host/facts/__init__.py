"""What a host shows: sysfs, /proc, NVML, the processes that have a vGPU. Nothing here writes."""
