-- Buses that want only some events: empty arrays stand for all of them. Written when the bus is added, and never
-- changed: rows of the outbox are written only for events that pass it.

ALTER TABLE buses ADD COLUMN event_types text[] NOT NULL DEFAULT '{}';
ALTER TABLE buses ADD COLUMN plans text[] NOT NULL DEFAULT '{}';
ALTER TABLE buses ADD COLUMN messages_only boolean NOT NULL DEFAULT false;
