"""The inventory's files: finds them, reads them as Ansible reads YAML, and gives core plain values."""
