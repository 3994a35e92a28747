"""Predictions on Ray and Spark."""
