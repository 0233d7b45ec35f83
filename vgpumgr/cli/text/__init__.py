"""What is printed: plans, fleets, schedulers and usage as lines; output.py is the one place that prints."""
