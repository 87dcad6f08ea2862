-- The whole reference to the run on its engine, as JSON; NULL in rows that have no engine, or were written before.

ALTER TABLE runs ADD COLUMN engine_ref BLOB;
