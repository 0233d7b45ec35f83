"""Metrics as Prometheus reads them: a page of text, a file, a small HTTP server. Knows nothing of hosts, stores or commands."""
