"""Theory on small dense problems: what the formulas say, beside what sampling finds; nothing in the core imports it."""
