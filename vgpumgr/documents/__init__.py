"""Builds the documents of `-o json` and Ansible's results. Nothing else does. There is one file per schema of docs/schemas.

Each takes a use case's result and returns only JSON's own types. plan-1 and change-1 are one object: change.py.
"""
