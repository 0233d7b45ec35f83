"""A VM's slot: what is asked for it, which vGPU it is to have, and the plans that attach, repair and free it."""
