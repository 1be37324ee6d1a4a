"""The use cases: check, profile, optimize. Called by the command line and the server alike."""
