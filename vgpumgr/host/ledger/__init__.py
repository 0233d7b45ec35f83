"""The host's persistent state: the ledger, writes that have not returned, the lock; and the child that writes."""
