"""Values that the pure decisions and the effects share. Pure, frozen."""
