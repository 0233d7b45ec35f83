"""Options and their values: the common options, durations and sizes, completion, and the prompt before a change."""
