"""Simulated hosts for trying, rehearsing and testing: real in everything but the GPU."""
