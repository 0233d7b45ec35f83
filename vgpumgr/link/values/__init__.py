"""The wire's messages ↔ core's values. Pure.

snapshot_facts, sampling_facts, libvirt_facts   what a host states → values       steps   steps of a plan → the wire's
"""
