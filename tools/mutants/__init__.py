"""Small named mistakes in the sources (mutants), and the tests that must notice each: docs/mutants.md."""
