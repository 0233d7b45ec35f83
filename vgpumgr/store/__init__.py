"""What the controller stores: history, and the nightly run's lock. Deleting it loses no declaration."""
