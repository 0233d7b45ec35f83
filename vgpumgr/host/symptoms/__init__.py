"""What doctor asks beyond the facts of every command. Nothing here writes."""
