"""The ring: how a queue's log is kept alike on several nodes, and who leads when one of them is gone."""
