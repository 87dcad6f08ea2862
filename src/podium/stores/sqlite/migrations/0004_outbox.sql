-- Events on their way to buses.
--
-- While there is a bus, every new event also gets a row in `outbox`, in the transaction that stores it; without
-- a bus there are no rows. A relay claims the *line* of one run: it publishes the line in the order of run_seq,
-- removes what was delivered and gives the line up. `waiting` counts the line's rows and changes only with them.
-- Lines are held like leases, by the boot-time clock (0002_ownership.sql), and a line that failed rests until
-- `not_before` on the same clock. A line stays when it is empty: its generation must never fall.
--
-- What a bus would not take becomes a row of `dead`, and the line goes on without it.

CREATE TABLE buses (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    bus    TEXT NOT NULL UNIQUE
);

CREATE TABLE lines (
    number     INTEGER PRIMARY KEY,
    bus        INTEGER NOT NULL REFERENCES buses (number),
    run        INTEGER NOT NULL REFERENCES runs (number),
    waiting    INTEGER NOT NULL,
    generation INTEGER NOT NULL DEFAULT 0,
    owner      TEXT NOT NULL DEFAULT '',
    boot       TEXT NOT NULL DEFAULT '',
    held_until REAL,
    not_before REAL,
    failures   INTEGER NOT NULL DEFAULT 0,
    error      TEXT NOT NULL DEFAULT '',
    -- Rises with every claim of the bus: whose turn was longest ago is next, so that a busy run starves no other.
    turn       INTEGER NOT NULL DEFAULT 0,
    UNIQUE (bus, run)
);

CREATE INDEX lines_by_run ON lines (run);
CREATE INDEX lines_waiting ON lines (bus, turn, number) WHERE waiting > 0;
CREATE INDEX lines_by_turn ON lines (bus, turn);

CREATE TABLE outbox (
    line    INTEGER NOT NULL REFERENCES lines (number),
    run_seq INTEGER NOT NULL,
    PRIMARY KEY (line, run_seq)
) WITHOUT ROWID;

CREATE TABLE dead (
    line       INTEGER NOT NULL REFERENCES lines (number),
    run_seq    INTEGER NOT NULL,
    event_type TEXT NOT NULL,
    failures   INTEGER NOT NULL,
    error      TEXT NOT NULL,
    died_at    TEXT NOT NULL,
    PRIMARY KEY (line, run_seq)
) WITHOUT ROWID;
