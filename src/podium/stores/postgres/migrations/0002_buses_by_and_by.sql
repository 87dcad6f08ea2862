-- Buses that come and go bit by bit, so that nobody waits for a transaction over all of the log.
--
-- A bus that is to have everything is `filling` at first: new events are already put into its lines, older ones follow
-- in the order of (run, run_seq), and filled_* say how far that has come. It cannot be claimed before it is `open`, so
-- whatever the order in which rows were added, a line is delivered in its own. A bus that goes is `removing` until its
-- last row is gone. Whoever asks for the same again goes on where a crash left it.
--
-- That a bus is there, and whether it is being removed, changes under the exclusive lock of the store: an append sees
-- it before or after, never in between. The bits in between take the shared lock, the row of the bus, the rows of
-- runs, and then lines, in the order of 0001_log.sql.

ALTER TABLE buses ADD COLUMN state text NOT NULL DEFAULT 'open';
ALTER TABLE buses ADD COLUMN filled_run bigint NOT NULL DEFAULT 0;
ALTER TABLE buses ADD COLUMN filled_seq bigint NOT NULL DEFAULT 0;
