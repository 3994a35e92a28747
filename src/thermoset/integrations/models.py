"""A torch model by its name, and its weights from a file."""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from thermoset.core.memory import physical_memory
from thermoset.errors import FileFormatError, InputError
from thermoset.io.files import FilePath, check_size, existing, need
from thermoset.io.tensors import load_pt

if TYPE_CHECKING:
    import torch

__all__ = ["build_model", "load_weights"]

WEIGHT_SUFFIXES = (".safetensors", ".pt", ".pth", ".bin", ".ckpt", ".tar")
NESTED = ("state_dict", "model_state_dict", "model")  # where training scripts keep the weights of a checkpoint
WRAPPERS = ("module.", "_orig_mod.")  # what DataParallel and torch.compile put before every name
SHOWN = 5


def build_model(name: str, arguments: Mapping[str, Any] | None = None) -> "torch.nn.Module":
    """Import `package.module:callable` and call it with keyword arguments; a module that is built already is taken.

    >>> build_model("torch.nn:Linear", {"in_features": 4, "out_features": 3})
    Linear(in_features=4, out_features=3, bias=True)
    >>> build_model("torch.nn:Liner")
    Traceback (most recent call last):
        ...
    thermoset.errors.InputError: model 'torch.nn:Liner': module torch.nn has no 'Liner'.
    """
    torch = need("torch", "torch", "building a model")
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute or module_name.startswith("."):
        raise InputError(f"model must be package.module:callable, such as torchvision.models:resnet152; got {name!r}.")
    try:
        module = importlib.import_module(module_name)
    except (ImportError, SyntaxError, ValueError) as error:
        raise InputError(f"model {name!r}: {module_name} cannot be imported ({_reason(error)}).") from None
    if not hasattr(module, attribute):
        raise InputError(f"model {name!r}: module {module_name} has no {attribute!r}.")
    found = getattr(module, attribute)
    if isinstance(found, torch.nn.Module):
        if arguments:
            raise InputError(f"model {name!r} is already built and takes no arguments; got {', '.join(arguments)}.")
        return found
    try:
        made = found(**(arguments or {}))
    except (TypeError, ValueError, KeyError) as error:
        raise InputError(f"model {name!r} cannot be built with those arguments ({_reason(error)}).") from None
    if not isinstance(made, torch.nn.Module):
        raise InputError(f"model {name!r} gave a {type(made).__name__}; expected a torch.nn.Module.")
    return made


def load_weights(model: "torch.nn.Module", path: FilePath) -> None:
    """Load weights from a safetensors file or a checkpoint that torch reads with `weights_only=True`.

    A checkpoint is a state dict, or a dict that holds one as `state_dict`, `model_state_dict` or `model`. Names may
    begin with `module.` or `_orig_mod.`. Every name and shape must fit the model.

    >>> import tempfile, torch
    >>> trained, fresh = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.save({"epoch": 300, "state_dict": trained.state_dict()}, f"{folder}/weights.pt")
    ...     load_weights(fresh, f"{folder}/weights.pt")
    >>> torch.equal(trained.weight, fresh.weight)
    True
    """
    source, suffix = existing(path, WEIGHT_SUFFIXES)
    limit = physical_memory() // 2
    try:
        check_size(source.stat().st_size, limit, "the file")
        if suffix == ".safetensors":
            state = _read_safetensors(source)
        else:
            state = _state_dict(load_pt(source, limit, "Save the model's state_dict()."))
        state = _unwrapped(state)
        _check_shapes(model, state)
        missing, unexpected = model.load_state_dict(state, strict=False)
        faults = [
            f"{word} {_listed(names)}" for word, names in (("missing", missing), ("unexpected", unexpected)) if names
        ]
        if faults:
            raise InputError(f"weights do not fit the model: {'; '.join(faults)}.")
    except InputError as error:
        raise type(error)(f"{source}: {error}") from None


def _read_safetensors(path: Any) -> dict[str, Any]:
    library = need("safetensors.torch", "io", "reading .safetensors")
    try:
        state: dict[str, Any] = library.load_file(path)
    except need("safetensors", "io", "reading .safetensors").SafetensorError as error:
        raise FileFormatError(f"not a readable safetensors file, or a truncated one ({error}).") from None
    return state


def _state_dict(content: Any) -> dict[str, Any]:
    """Find the state dict in what a checkpoint holds."""
    torch = need("torch", "torch", "reading weights")
    for place in (content, *(content.get(name) for name in NESTED if isinstance(content, Mapping))):
        if isinstance(place, Mapping) and place and all(isinstance(value, torch.Tensor) for value in place.values()):
            return {str(name): value for name, value in place.items()}
    holds = (
        ", ".join(str(key) for key in list(content)[:20]) if isinstance(content, Mapping) else type(content).__name__
    )
    raise FileFormatError(
        f"no state dict of tensors, neither at the top nor under {', '.join(NESTED)}; it contains: "
        f"{holds or 'nothing'}. "
        f"Save the model's state_dict()."
    )


def _unwrapped(state: dict[str, Any]) -> dict[str, Any]:
    for wrapper in WRAPPERS:
        if all(name.startswith(wrapper) for name in state):
            state = {name.removeprefix(wrapper): value for name, value in state.items()}
    return state


def _check_shapes(model: "torch.nn.Module", state: dict[str, Any]) -> None:
    """Torch reports shapes over many lines; a wrong number of classes shows here."""
    wrong = [
        f"{name} is {tuple(state[name].shape)}, the model's {tuple(own.shape)}"
        for name, own in model.state_dict().items()
        if name in state and state[name].shape != own.shape
    ]
    if wrong:
        more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        raise InputError(f"weights do not fit the model: {'; '.join(wrong[:SHOWN])}{more}.")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
