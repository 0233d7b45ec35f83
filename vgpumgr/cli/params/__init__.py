"""Options and their values: what every command takes, durations and sizes, completion, and the question before a change."""
