"""What a user would write: programs that know nothing of Meshgate, and run in an environment of their own."""
