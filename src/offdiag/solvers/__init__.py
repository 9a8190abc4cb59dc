"""G → W: arrays in, arrays out. Nothing here knows of ids, users or files."""
