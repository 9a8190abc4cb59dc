"""G → W: arrays in, arrays out. Nothing here knows about ids, users or files."""
