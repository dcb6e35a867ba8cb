"""The pages of the dashboard: each asks the API as its reader, and names a template."""
