"""How the bundled glyphs were made: `python -m examples.glyphs --help`."""
