"""Where events are kept: memory, sqlite, postgres. One port, one suite of promises."""
