"""What happened in a run: events, ids, times, keys, transitions, redaction, and the fold to a snapshot."""
