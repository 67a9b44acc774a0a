"""Everything that is Spark's own: the session, its JVM, its workers, its image."""
