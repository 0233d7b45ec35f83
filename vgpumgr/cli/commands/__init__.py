"""The commands, one file per family. Each imports what it needs when it runs, so that help stays quick."""
