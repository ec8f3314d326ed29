"""How requests become committed events: the queue and its batches, following a shared journal, and snapshots."""
