-- Which store this is, for systems that several stores share: made once, and the same in copies of the schema.

CREATE TABLE store_id (
    only_row  boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    id        text COLLATE "C" NOT NULL
);

INSERT INTO store_id (id) VALUES (replace(gen_random_uuid()::text, '-', ''));
