"""What the load generator does for each message. Every module of this package is compiled.

Rules:
- A message is built once. A write is that message, stamped with the time, repeated: all messages of one write share
  their stamp. Only numbered messages (`--verify`) are put together one by one.
- A body begins with the stamp (8 bytes, nanoseconds since 1970) when it has room for it; numbered bodies go on with the
  run (4), the producer (4) and the sequence number (8).
- Time is an argument: one reading of the clock for each chunk that the socket gave.
"""
