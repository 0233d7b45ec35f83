"""A mock libnvidia-ml.so.1, compiled against NVIDIA's public nvml.h."""
