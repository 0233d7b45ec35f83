"""The wire's messages ↔ core's values. Pure.

by_name   what both have under the same names, in both directions; the others state what differs
snapshot_facts, sampling_facts, libvirt_facts   what a host states → values       steps   steps of a plan → the wire's
"""
