"""Topics, offsets, tables and state in one RocksDB inside the workspace: one process, no server."""
