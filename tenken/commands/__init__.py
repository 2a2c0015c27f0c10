"""Commands that bring several parts together; each part registers its own besides."""
