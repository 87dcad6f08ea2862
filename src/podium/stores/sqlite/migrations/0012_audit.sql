-- The audit log: who asked for what, and what was decided. One chain of sealed records per tenant.
--
-- `content` is the canonical JSON that the seal is over. `audit_heads` says where each chain ends, under a seal of its
-- own: records that were deleted at the end of a chain are missed. Records stay when their run is removed. The triggers
-- keep a mistake from changing them; whoever drops the triggers is found out by the seals.

CREATE TABLE audit_records (
    tenant_id TEXT NOT NULL,
    seq       INTEGER NOT NULL,
    content   BLOB NOT NULL,
    seal      BLOB NOT NULL,
    PRIMARY KEY (tenant_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE audit_heads (
    tenant_id    TEXT NOT NULL PRIMARY KEY,
    seq          INTEGER NOT NULL,
    seal         BLOB NOT NULL,
    head_seal    BLOB NOT NULL,
    audit_key_id TEXT
) STRICT, WITHOUT ROWID;

CREATE TRIGGER audit_records_stay BEFORE DELETE ON audit_records
BEGIN SELECT raise(ABORT, 'audit records are never deleted'); END;

CREATE TRIGGER audit_records_do_not_change BEFORE UPDATE ON audit_records
BEGIN SELECT raise(ABORT, 'audit records are never changed'); END;

-- INSERT OR REPLACE would delete without the trigger above.
CREATE TRIGGER audit_records_are_not_replaced BEFORE INSERT ON audit_records
WHEN EXISTS (SELECT 1 FROM audit_records WHERE tenant_id = new.tenant_id AND seq = new.seq)
BEGIN SELECT raise(ABORT, 'audit records are never replaced'); END;

CREATE TRIGGER audit_heads_stay BEFORE DELETE ON audit_heads
BEGIN SELECT raise(ABORT, 'the end of an audit chain is never deleted'); END;

CREATE TRIGGER audit_heads_move_on BEFORE UPDATE ON audit_heads WHEN new.seq <= old.seq OR new.tenant_id <> old.tenant_id
BEGIN SELECT raise(ABORT, 'an audit chain never becomes shorter'); END;
