"""Users who come and go after the fit: `update`, `forget`, the event log and the living state."""
