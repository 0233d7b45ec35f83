"""libvirt on this host: the library calls we make, what is read of domains, and changes of their definitions."""
