"""The commands, a file for each family; each imports what it needs when it is called, so that help is quick."""
