"""The HTTP/1.1 server: request parsing, connections, exchanges, and their shared state."""
