"""The service: saved models behind HTTP. ``app.create`` makes the application, ``run.serve`` runs it."""
