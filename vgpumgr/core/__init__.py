"""Pure decisions: values in, values out. No I/O, clock, randomness, logging or third-party library."""
