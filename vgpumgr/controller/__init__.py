"""Use cases: the Python API. They return frozen results and never print."""
