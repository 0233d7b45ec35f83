"""Metrics as Prometheus reads them: a page of text, a file, a small HTTP server. Independent of hosts, stores and commands."""
