"""What changes a host: each step checked, written and read back, and the guard of every removal."""
