-- Which store this is, for systems that several stores share: made once, and the same in copies of the file.

CREATE TABLE store_id (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    id       TEXT NOT NULL
);

INSERT INTO store_id (only_row, id) VALUES (1, lower(hex(randomblob(16))));
