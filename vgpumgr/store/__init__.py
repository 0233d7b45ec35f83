"""What the controller keeps for itself: history, and the lock of the nightly run. Nothing desired; deleting it loses no wish."""
