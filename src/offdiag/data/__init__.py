"""From files to matrices: formats, ids, splits. No algebra here."""
