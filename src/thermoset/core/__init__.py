"""The numeric core: arrays and records in, arrays and records out. It knows no files, frames, estimators or pages.

In the order of the flow: `levels` (alpha), `exponentials` and `masses` (one row at one temperature), `scores` (one
formula each), `uniforms` (u), `sources` and `pool` (rows in blocks, on threads), and the stages of everything else:
`labels` (what each row's own label needs), `thresholds`, `walk` and `counting` (sizes and hits of many trials),
`integrated` (the same with u integrated out), `prefixes` (sets under one threshold), `groups` (thresholds by group).
"""
