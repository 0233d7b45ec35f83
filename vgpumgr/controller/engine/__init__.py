"""Carries out a plan on one host: lock, steps, undo, final reading, journal. Every plan is carried out here."""
