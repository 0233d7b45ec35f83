"""The host program, from the controller's side.

session       requests and the lock's lease
bootstrap     how the program gets to the host and starts       package          the program as it is sent
wire          bytes ↔ checked messages (pure)                   sanity           impossible values become unknown (pure)
refusals      err answers → errors (pure)                       libvirt_refusals  libvirt's among them
unstarted     what came in place of its greeting (pure)         become            sudo's refusals (pure)
"""
