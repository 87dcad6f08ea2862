"""Access control: actors, roles, the rules of tenants, and the record of every decision. Pure."""
