"""How use cases reach hosts: sessions, many at once, and on which host a VM is."""
