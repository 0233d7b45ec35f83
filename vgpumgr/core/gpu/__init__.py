"""The plans about a GPU: its mode, scheduler, GPU instances and cordon, and the vGPUs that have to leave and come back."""
