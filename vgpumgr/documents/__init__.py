"""Builds the documents of `-o json` and Ansible's results, which nothing else does. One function for each schema.

Each takes a use case's result and returns only JSON's own types. What needs no host is in modules of its own, since
those start faster. The schemas are in docs/schemas.
"""
