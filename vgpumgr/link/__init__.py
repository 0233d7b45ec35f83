"""The controller's side of one host. `connection.connect` opens it.

host          Host: the controller's requests and the answers, in values of core
connection    connect → HostLink: a Host over SSH
domain_query  what to read of libvirt
deadlines     how a wait is bounded                 moments      events that a test can watch

values/       the wire's messages ↔ core's values
program/      the host program: how it gets to the host, its session, the wire
ssh/          one SSH connection: from an address to a command
"""
