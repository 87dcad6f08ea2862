"""Places to fetch published plans from and to publish them: files, S3, HTTP."""
