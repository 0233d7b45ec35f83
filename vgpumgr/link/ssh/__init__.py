"""One SSH connection.

client        handshake, login, commands (paramiko)             dial         dns, tcp, banner
jumps         through jump hosts, whose connections are shared  wire         what carries it: a socket, or a tunnel
host_key      is this the host we know?                         known_hosts  the files, as an index
keys          which private key
config        what the user's own ssh_config says of a host          config_files   whether it says anything
"""
