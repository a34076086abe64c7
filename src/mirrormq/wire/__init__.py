"""AMQP 0-9-1 on the wire: frames, methods, field tables, properties and error codes.

Bytes in, values out, and back. Nothing here knows a socket, a file or a clock.
"""
