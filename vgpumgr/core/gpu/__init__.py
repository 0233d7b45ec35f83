"""Plans about one GPU: mode, scheduler, GPU instances, cordon, and vGPUs that are removed and re-created for them."""
