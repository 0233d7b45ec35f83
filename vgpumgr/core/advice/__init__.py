"""What would use the GPUs better, and what says so: from samples, a host's vGPUs and its room. Nothing acts on it."""
