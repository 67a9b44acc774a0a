"""The stream engine's side of Meshgate: the router, the rules, and the batch jobs over the raw log."""
