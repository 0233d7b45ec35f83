"""The controller's side of one host: SSH, the host program's session, the libvirt tunnel. `connection.connect` opens it.

host         Host: what the controller asks and is told, in values of core
snapshot_facts, sampling_facts   the host's facts → values     steps        steps of a plan → the wire's
connection   connect → HostLink: a Host over SSH               deadlines    every wait's end, in one place
ssh          handshake, login, commands (paramiko)             dial         dns, tcp, banner
host_key     is this the host we know?  known_hosts (index)    keys         which private key
program      requests and the lock's lease                     bootstrap    how the program gets there and starts
wire         bytes ↔ checked messages (pure)                   refusals     err answers → errors (pure)
sanity       what no host can mean is unknown                  moments      what a test or a person may watch
hypervisor   libvirt's calls with deadlines (libvirt)          tunnel       libvirt's bytes over SSH
"""
