"""After a boot: this host's vGPUs are made again from its ledger alone, before libvirt starts a VM."""
