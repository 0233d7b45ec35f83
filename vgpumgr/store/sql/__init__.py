"""The SQLite files of this controller: the one place that imports sqlalchemy (a quarter of a second, so on first use)."""
