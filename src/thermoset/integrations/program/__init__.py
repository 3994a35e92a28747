"""A fitted predictor as a program of array operations: what NumPy, torch and ONNX run instead of our kernels.

`operations` lists what an engine must offer, `draws` makes u, the classes in `scores` say how engines compute them,
`sets` compares them with thresholds, `predictor` puts it all together. Each is written once, for any engine:
`integrations.torch` runs the program on tensors, `integrations.numpy` on arrays, and `integrations.onnx` on symbols,
which leaves a graph.

An engine has its own exponential and adds in its own order, so its scores differ from ours in the last bits.
`sets.threshold_constants` says how such a score is compared: a label within the rounding error of the threshold is in.
"""

from thermoset.integrations.program.predictor import OUTPUTS, Program, group_codes

__all__ = ["OUTPUTS", "Program", "group_codes"]
