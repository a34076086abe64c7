"""The admin door: RabbitMQ's management HTTP API for one node, and how tools on the same machine find it."""
