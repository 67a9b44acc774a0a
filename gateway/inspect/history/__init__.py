"""The mesh's past, read from its topics: by place, by time, and never more of it than is asked for."""
