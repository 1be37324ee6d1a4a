"""The agent loop: four roles, beam search, run store and optimization memory."""
