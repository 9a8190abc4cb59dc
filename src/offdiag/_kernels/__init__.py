"""The compiled loops, grouped by the data they work on. Each releases the interpreter lock and takes a range."""
