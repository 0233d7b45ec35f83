"""Plans, fleets, schedulers and usage as lines of text. Of these only output.py prints."""
