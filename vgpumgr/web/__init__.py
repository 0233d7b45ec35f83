"""The HTTP side of `serve`: addresses, headers, statuses and the socket. What is answered comes from its caller."""
