"""What `-o json` and Ansible's results say: the one place that builds them, a file for each schema of docs/schemas.

Each takes a use case's result and gives JSON's own types and no others. plan-1 and change-1 are one object: change.py.
"""
