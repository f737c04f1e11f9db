"""Delta Lake and Iceberg tables as sinks of streams, exactly once and with no jar.

Tasks write Parquet files, which nobody sees until the commit names them; the commit is one change
of the table that holds the files *and* the number of the micro-batch. A batch that comes again
finds its number there and adds nothing. docs/decisions has why it is done so.
"""
