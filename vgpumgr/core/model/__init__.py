"""What a host, its domains and their claims are, as frozen values; one observation of them all is a HostView."""
