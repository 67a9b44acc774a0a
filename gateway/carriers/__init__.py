"""The parts of a carrier that both its ends share: the edge's listeners and our own clients."""
