"""Metrics for Prometheus: a page of text, a file, a small HTTP server. Needs no hosts, stores or commands."""
