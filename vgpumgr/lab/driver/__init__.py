"""The lab's own GPU driver: boards, admission, schedulers, loads; written apart from core, whose witness it is."""
