"""The client's end of each carrier."""
