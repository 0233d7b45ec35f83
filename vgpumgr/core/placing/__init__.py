"""Where a wish can be served: the types that serve it, the room on each GPU, the place taken; or why there is none."""
