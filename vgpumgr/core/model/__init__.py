"""A host, its domains and their claims as frozen values; one observation of them all is a HostView."""
