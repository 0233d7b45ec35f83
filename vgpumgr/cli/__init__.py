"""The command line: thin, one file per command family. Nothing else in the program prints."""
