"""The controller's side of one host: SSH, the host program's session, the libvirt tunnel."""
