"""Steps as values, and the plans that are made of them: attach, detach, adopt a scheduler, each with its guards."""
