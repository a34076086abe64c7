"""`mirrormq perf`: a load generator for AMQP 0-9-1 brokers, in the manner of RabbitMQ's PerfTest.

`command.perf` is the click command. `hot` and `histogram` do the work per message and are compiled.
"""
