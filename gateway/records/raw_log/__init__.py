"""The log of everything that came in: many frames to a Kafka record, each decodable alone."""
