"""Fields of answers, compared with RabbitMQ's."""
