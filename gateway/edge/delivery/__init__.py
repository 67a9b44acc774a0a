"""The way out: what the router wrote, handed to sessions and addresses, owed to who is away, and accounted for."""
