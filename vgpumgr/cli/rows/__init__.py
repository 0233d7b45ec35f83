"""What a command prints as rows: columns, and every format that follows from them."""
