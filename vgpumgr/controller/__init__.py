"""Use cases. Returns frozen results and never prints: this is the Python API."""
