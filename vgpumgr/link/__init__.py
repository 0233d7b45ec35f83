"""The controller's side of one host: SSH, the host program's session, the libvirt tunnel. `connection.connect` opens it.

host         Host: the controller's requests and the answers, in values of core
snapshot_facts, sampling_facts   the host's facts → values     steps        steps of a plan → the wire's
connection   connect → HostLink: a Host over SSH               deadlines    every wait's limit, in one place
ssh          handshake, login, commands (paramiko)             dial         dns, tcp, banner
host_key     is this the host we know?  known_hosts (index)    keys         which private key
program      requests and the lock's lease                     bootstrap    how the program gets to the host and starts
package      the host program as it is sent
wire         bytes ↔ checked messages (pure)                   refusals     err answers → errors (pure)
sanity       impossible values become unknown                  moments      events that a test can watch
hypervisor   libvirt's calls with deadlines (libvirt)          tunnel       libvirt's bytes over SSH
"""
