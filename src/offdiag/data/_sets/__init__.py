"""Public data sets: download, archives, parsers, images."""
