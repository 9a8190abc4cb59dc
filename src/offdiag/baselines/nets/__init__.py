"""Neural baselines, trained with torch and scored without it."""
