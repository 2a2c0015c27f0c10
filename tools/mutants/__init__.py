"""Small named mistakes in the sources (mutants), and the tests that must detect each: docs/mutants.md."""
