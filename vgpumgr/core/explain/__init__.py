"""What would help after a refusal. Only the code that shows the refusal asks for it, never a planner."""
