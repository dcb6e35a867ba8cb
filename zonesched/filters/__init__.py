"""Host filters: one small class each."""
