"""Dataclasses: a field is a hyper-parameter, ``fit`` sets ``weights_``."""
