"""Changes of a host: each step is checked, written and read back; a guard checks every removal."""
