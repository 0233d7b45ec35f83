"""What only `host certify` asks of a host."""
