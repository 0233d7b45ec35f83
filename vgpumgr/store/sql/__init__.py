"""The SQLite files of this controller: the one place that imports sqlite3, on first use."""
