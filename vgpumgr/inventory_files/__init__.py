"""The inventory as files: found, read as Ansible reads YAML, and handed to core as values."""
