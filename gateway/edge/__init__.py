"""The edge: sockets and sessions on one side, the raw log and the egress topic on the other. No Spark, no Java."""
