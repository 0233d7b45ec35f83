"""What is wrong on a host, or on the controller's machine: each illness, what it leads to and what mends it."""
