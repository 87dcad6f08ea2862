-- Buses that want only some events: types and plans as JSON, empty for all. Written when the bus is added, and never
-- changed: rows of the outbox are written only for events that pass it.

ALTER TABLE buses ADD COLUMN wanted TEXT NOT NULL DEFAULT '';
