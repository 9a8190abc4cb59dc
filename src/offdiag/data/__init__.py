"""Files to matrices: formats, ids, splits. No algebra lives here."""
