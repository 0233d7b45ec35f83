"""Simulated hosts for trials, rehearsals and tests: everything but the GPU is real."""
