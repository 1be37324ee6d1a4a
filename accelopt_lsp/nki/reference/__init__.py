"""What there is to say about NKI's names: which exist where, what their parameters mean, pages."""
