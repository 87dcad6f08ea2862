-- Buses that want the events of some tenants only; an empty array stands for all of them.

ALTER TABLE buses ADD COLUMN tenants text[] NOT NULL DEFAULT '{}';
