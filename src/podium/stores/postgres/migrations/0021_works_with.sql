-- Which processes may keep working on the store after a migration: those that know the migration `works_with`, or a
-- later one. NULL: only those that know the migration itself. It is set from a line of the migration's file,
-- `-- works with: NNNN`.
--
-- Processes that do not know this migration are refused, as before: they read the number only.

ALTER TABLE migrations ADD COLUMN works_with integer CHECK (works_with BETWEEN 1 AND number);

CREATE OR REPLACE FUNCTION begin_writing(known integer, store bigint, keys bigint[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    key bigint;
    needed integer;
    newest integer;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(store);
    FOREACH key IN ARRAY keys LOOP
        PERFORM pg_advisory_xact_lock(key);
    END LOOP;
    SELECT max(coalesce(works_with, number)), max(number) INTO needed, newest FROM migrations;
    IF needed > known THEN
        RAISE EXCEPTION 'version %', newest USING ERRCODE = 'PD001';
    END IF;
END
$$;
