"""What a host's snapshot says about its vGPUs: who owns, uses or names them, and which places cannot be used."""
