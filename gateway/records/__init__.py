"""The records in the mesh's topics: their layouts, written and read."""
