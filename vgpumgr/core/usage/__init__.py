"""What each VM used: readings become measures; measures become windows, histograms and metrics. No plan needs it."""
