"""What each VM used: readings become measures, measures become windows, histograms and metrics. Independent of plans."""
