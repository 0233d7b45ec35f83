"""What a host's snapshot says about a vGPU: its owner, who uses or names it, what was lost, what is off limits."""
