"""The engines that run an exported predictor, each as a function (predictor, logits) -> dict of arrays."""

import numpy as np

from parts import require
from thermoset.integrations.numpy import to_numpy


def session(model, **options):
    """An ONNX Runtime session on one thread."""
    runtime = require("onnxruntime", "test")
    asked = runtime.SessionOptions()
    asked.intra_op_num_threads = asked.inter_op_num_threads = 1
    content = model if isinstance(model, str | bytes) else model.SerializeToString()
    return runtime.InferenceSession(content, asked, providers=["CPUExecutionProvider"], **options)


def by_onnx(predictor, logits, **options):
    require("onnx", "onnx")
    from thermoset.integrations.onnx import to_onnx

    model = to_onnx(predictor, dtype=logits.dtype.name, **options)
    names = [one.name for one in model.graph.output]
    return dict(zip(names, session(model).run(names, {"logits": logits}), strict=True))


def by_torch(predictor, logits):
    torch = require("torch", "torch")
    from thermoset.integrations.torch import to_torch

    torch.set_num_threads(1)  # tests run on every core already
    with torch.inference_mode():
        found = to_torch(predictor)(torch.from_numpy(np.array(logits)))
    return {name: tensor.numpy() for name, tensor in found._asdict().items()}


def by_numpy(predictor, logits):
    return to_numpy(predictor.document_)(logits)._asdict()


def by_exported_torch(predictor, logits):
    torch = require("torch", "torch")
    from thermoset.integrations.torch import to_torch

    rows = torch.from_numpy(np.array(logits))
    shapes = {"logits": {0: torch.export.Dim("n")}}
    program = torch.export.export(to_torch(predictor), (rows[:2],), dynamic_shapes=shapes)
    return {name: tensor.numpy() for name, tensor in program.module()(rows)._asdict().items()}


ENGINES = {"onnx": by_onnx, "torch": by_torch, "numpy": by_numpy}
