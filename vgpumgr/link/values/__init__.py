"""Translates between the wire's messages and core's values. Pure.

by_name translates the fields that have the same name on both sides; each other module states what differs for its kind
of message. *_facts: what a host says → core's values. steps: a plan's steps → the wire's.
"""
