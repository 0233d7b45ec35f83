"""What a host needs so that every VM has what was declared or once bound to it: jobs, their order, their plans, the guards of a run."""
