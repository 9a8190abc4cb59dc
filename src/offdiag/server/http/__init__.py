"""The HTTP/1.1 server: bytes to requests, connections, exchanges, and what they share."""
