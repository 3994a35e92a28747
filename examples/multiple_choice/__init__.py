"""Multiple choice by the log-likelihoods of options, in lm-eval's format."""
