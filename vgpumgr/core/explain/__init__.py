"""What would help where something was refused: asked by whoever shows the refusal, never while a plan is made."""
