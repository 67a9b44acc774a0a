"""The mesh's topics in Kafka: made to fit, and read without being noticed."""
