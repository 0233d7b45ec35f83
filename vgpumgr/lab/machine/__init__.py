"""One simulated host: its namespaces, sshd, libvirtd, VMs that hold vGPUs, and the process that supervises them."""
