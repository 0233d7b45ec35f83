"""Builds the documents of `-o json` and Ansible's results. Nothing else does. There is one function per schema of docs/schemas.

Each takes a use case's result and returns only JSON's own types. What needs no host is apart from what does: it starts faster.
"""
