"""What is shown about a host: its vGPUs and their owners, its schedulers, and its findings."""
