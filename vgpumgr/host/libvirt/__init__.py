"""libvirt on this host: our few calls of its library, what is read of the domains, and what is changed in their definitions."""
