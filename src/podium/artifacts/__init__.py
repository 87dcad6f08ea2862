"""Where artifacts are kept: a folder of this machine, or any object store that speaks S3."""
