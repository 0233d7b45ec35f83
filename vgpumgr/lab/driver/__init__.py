"""The lab's own GPU driver: boards, admission, schedulers, loads. Written independently of core, to check it."""
