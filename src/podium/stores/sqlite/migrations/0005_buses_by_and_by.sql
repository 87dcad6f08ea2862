-- Buses that come and go bit by bit, so that nobody waits for a transaction over all of the log.
--
-- A bus that is to have everything is `filling` at first: new events are already put into its lines, older ones follow
-- in the order of (run, run_seq), and `filled_*` say how far that has come. It cannot be claimed before it is `open`, so
-- whatever the order in which rows were added, a line is delivered in its own. A bus that goes is `removing` until its
-- last row is gone. Whoever asks for the same again goes on where a crash left it.

ALTER TABLE buses ADD COLUMN state TEXT NOT NULL DEFAULT 'open';
ALTER TABLE buses ADD COLUMN filled_run INTEGER NOT NULL DEFAULT 0;
ALTER TABLE buses ADD COLUMN filled_seq INTEGER NOT NULL DEFAULT 0;
