"""The controller's side of one host: SSH, the host program's session, the libvirt tunnel. `connection.connect` opens it.

connection   connect → HostLink: everything of one host        deadlines    every wait's end, in one place
ssh          handshake, login, commands (paramiko)             dial         dns, tcp, banner
host_key     is this the host we know?  known_hosts (index)    keys         which private key
program      requests and the lock's lease                     bootstrap    how the program gets there and starts
wire         bytes ↔ checked messages (pure)                   refusals     err answers → errors (pure)
hypervisor   libvirt's calls with deadlines (libvirt)          tunnel       libvirt's bytes over SSH
"""
