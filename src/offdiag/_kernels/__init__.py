"""The compiled loops, by what they work on. Each releases the interpreter lock and takes a range."""
