"""What both ends of a carrier have in common: the edge's listeners and our own clients."""
