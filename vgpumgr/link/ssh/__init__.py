"""One SSH connection.

config        what the user's own ssh_config says of a host      config_files       whether it says anything
client        handshake, login, commands (paramiko)              dial               dns, tcp, banner
jumps         through jump hosts, whose connections are shared   wire, tunnel       its socket, or a jump host's channel
host_key      is this the host we know?                          known_hosts        the files, as an index
keys          which private key                                  key_files, agent   key files; what an agent does
certificate   what a certificate claims                          host_certificate, user_certificate   is it valid?
remarks       what a server tells us during a login              login_refusals     why it refuses a login
"""
