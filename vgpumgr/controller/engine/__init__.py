"""What carries a plan out on one host: lock, steps, undo, last look, journal. Whoever asks, this is the one way."""
