"""The nouns: frozen data, no behaviour beyond their own fields."""
