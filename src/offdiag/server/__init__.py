"""The service: saved models behind HTTP. ``app.create`` makes the application, ``process.serve`` runs it."""
