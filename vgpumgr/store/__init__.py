"""What the controller stores: history, and the lock of the nightly run. Nothing desired, so deleting it loses no declaration."""
