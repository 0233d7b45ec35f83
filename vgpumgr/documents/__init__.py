"""Builds the documents of `-o json` and Ansible's results, which nothing else does. One function for each schema.

Each takes a use case's result and returns only JSON's own types. Documents that need no host have separate modules,
which start faster. The schemas are in docs/schemas.
"""
