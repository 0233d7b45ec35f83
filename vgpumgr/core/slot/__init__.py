"""A VM's slot: what is requested for it, which vGPU it should have, and the plans that attach, repair and free it."""
