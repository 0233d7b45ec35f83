"""Facts about a host: sysfs, /proc, NVML, the processes that have a vGPU. Nothing here writes."""
