"""The host program: it runs on the hypervisor as root (standard library only, Python 3.9+), states facts, executes steps, and decides nothing."""
