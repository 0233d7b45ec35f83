"""The host program: it runs on the hypervisor as root (Python 3.9+, standard library only) and decides nothing."""
