"""Commands that combine several parts; each part also registers its own."""
