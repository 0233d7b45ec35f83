"""The command line: thin, one file per family; the one place that prints."""
