-- Where the plan of a run was published, as JSON; NULL of plans that only the store keeps, and of older runs.

ALTER TABLE runs ADD COLUMN plan_ref BLOB;
