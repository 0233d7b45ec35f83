"""Plans, fleets, schedulers and usage as lines of text. output.py prints them."""
