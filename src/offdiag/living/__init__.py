"""Users who are added and removed after the fit: `update`, `forget`, the event log and the living state."""
