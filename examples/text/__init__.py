"""A text classifier with calibrated confidence and prediction sets."""
