"""X → G = XᵀX: counting it, keeping it exactly, and adding and removing users."""
