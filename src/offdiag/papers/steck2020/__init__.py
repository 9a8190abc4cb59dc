"""Steck (2020), Autoencoders that don't overfit towards the Identity: Table 1 on any data, and as published."""
