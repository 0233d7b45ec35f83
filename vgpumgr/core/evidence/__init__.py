"""What speaks for or against a vGPU on a host as it was read: whose it is, who uses or names it, what was lost, what may not be touched."""
