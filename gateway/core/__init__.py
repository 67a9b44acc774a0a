"""The values and rules that everything else is built on: no event loop, no socket, no Kafka, no clock of its own."""
