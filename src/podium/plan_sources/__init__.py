"""Where published plans are fetched from and written to: files, S3, HTTP."""
