"""What an expression means: values, templates, operators, patterns, JSON Schema. Parsing text is in `language`."""
