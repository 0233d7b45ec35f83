"""What is shown of a host: its vGPUs and whose they are, its schedulers, and what is odd about it."""
