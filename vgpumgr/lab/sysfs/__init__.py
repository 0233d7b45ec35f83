"""The driver's files in /sys and /proc, served over FUSE."""
