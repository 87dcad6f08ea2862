"""Artifact stores: a folder of this machine, or any object store that supports S3."""
