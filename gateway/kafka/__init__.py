"""Clients of Kafka that more than one part of the mesh uses."""
