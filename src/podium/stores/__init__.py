"""Event stores: memory, SQLite, PostgreSQL. One port, one suite of promises."""
