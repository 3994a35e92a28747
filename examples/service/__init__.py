"""A small HTTP service around predictor.json."""
