"""The queue's log on disk: entries and chunks, the write-ahead log with group commit, segments, snapshots, recovery."""
