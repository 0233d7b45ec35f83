"""What a host needs so that every VM has what was declared or once bound to it: tasks, their order and plans, and a run's guards."""
