"""What a host needs so that each VM has what was declared or once bound: tasks, their order and plans, and guards."""
