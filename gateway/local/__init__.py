"""A whole mesh on one machine: Java, the pinned jars, the embedded broker, and their supervisor."""
