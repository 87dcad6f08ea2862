-- The audit log: who asked for what, and what was decided. One chain of sealed records per tenant.
--
-- `content` is the canonical JSON that the seal is over. `audit_heads` says where each chain ends, under a seal of its
-- own: records that were deleted at the end of a chain are missed. Records stay when their run is removed. The triggers
-- keep a mistake from changing them; whoever drops the triggers is found out by the seals.
--
-- A chain is continued under an advisory lock of its own, which is the last one in the order of 0001_log.sql; whoever
-- needs several takes them in the order of their tenants.

CREATE TABLE audit_records (
    tenant_id  text COLLATE "C" NOT NULL,
    seq        bigint NOT NULL,
    content    bytea NOT NULL,
    seal       bytea NOT NULL,
    PRIMARY KEY (tenant_id, seq)
);

CREATE TABLE audit_heads (
    tenant_id     text COLLATE "C" PRIMARY KEY,
    seq           bigint NOT NULL,
    seal          bytea NOT NULL,
    head_seal     bytea NOT NULL,
    audit_key_id  text COLLATE "C"
) WITH (fillfactor = 70);

CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is never changed or shortened' USING ERRCODE = 'restrict_violation';
END
$$;

CREATE TRIGGER audit_records_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_records
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_heads_stay BEFORE DELETE OR TRUNCATE ON audit_heads
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_heads_move_on BEFORE UPDATE ON audit_heads
    FOR EACH ROW WHEN (new.seq <= old.seq OR new.tenant_id <> old.tenant_id)
    EXECUTE FUNCTION refuse_audit_change();
