"""Host weighers: one small class each."""
