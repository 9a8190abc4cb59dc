"""Files that appear whole or not at all: the container of models, atomic writes, locks, sealed files and keys."""
