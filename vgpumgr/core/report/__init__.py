"""What is reported about a host: its vGPUs and their owners, its schedulers, and its findings."""
