"""The lake: Spark reads queues' logs as one more mirror. Needs the extra `lake` (PySpark, PyArrow, deltalake)."""
