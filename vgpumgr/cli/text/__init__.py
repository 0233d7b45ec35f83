"""Plans, fleets, schedulers and usage as lines of text. Only output.py prints."""
