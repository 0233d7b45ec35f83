"""Steps as values, and the plans that are made of them: attach, detach and scheduler set, each with its guards."""
