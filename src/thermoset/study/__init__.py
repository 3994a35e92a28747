"""The paper's tables and figures, beside what it prints."""
