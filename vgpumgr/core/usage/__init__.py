"""What each VM used: readings into measures, measures into windows, histograms and metrics. It knows of no plan."""
