"""What is left of the old core until its users are rebuilt."""
