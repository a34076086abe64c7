"""The same commands to RabbitMQ and to MirrorMQ."""
