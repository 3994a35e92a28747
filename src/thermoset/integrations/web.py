"""A page that answers without Python: the exported predictor with onnxruntime-web, and nothing from elsewhere.

The folder holds the page, the model and the runtime, and any server of static files serves it. Rows stay in the
browser. The runtime comes from npm once, and is kept in the user's cache folder by its version.
"""

import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from thermoset.errors import InputError, MissingExtraError
from thermoset.integrations.onnx import to_onnx
from thermoset.io.files import FilePath, as_path, check_folder, check_targets, errors_about, write_all
from thermoset.predictor import TwoTemperaturePredictor

RUNTIME_VERSION = "1.30.0"  # of onnxruntime-web; with newer ones pages have not been tried
WEB_FILES = ("index.html", "about.json", "predictor.onnx")
RUNTIME_FILES = ("ort.wasm.min.js", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
_SECONDS = 600  # that npm has for 33 MB


def to_web(predictor: TwoTemperaturePredictor, folder: FilePath, *, runtime: FilePath | None = None) -> list[Path]:
    """Write a page that predicts in the browser, and return its files.

    Serve the folder (`python -m http.server`), open it, and drop a csv or npy file of logits on the page. It shows
    label, confidence and set of each row, and the action where the predictor has an answer rule: the same as in
    Python, to the last bit of u, because the page runs the model of `to_onnx`.

    Parameters
    ----------
    predictor : TwoTemperaturePredictor
        A fitted predictor with a built-in score, and without thresholds by group of rows.
    folder : path
        Where the page is written; created if it does not exist.
    runtime : path, optional
        The unpacked npm package `onnxruntime-web`, or its `dist` folder. By default npm fetches it, once.

    Examples
    --------
    >>> import thermoset as ts
    >>> predictor = ts.TwoTemperaturePredictor().fit(ts.datasets.load_glyphs().logits)
    >>> to_web(predictor, "page")  # doctest: +SKIP
    """
    out = as_path(folder)
    if predictor.group_names_ is not None:
        raise InputError(
            "a page has no place for the group of a row, and this predictor has a threshold for each. Export it with "
            "--to onnx, or fit without grouping='group'."
        )
    with errors_about(out, "written"):
        check_folder(out)
    check_targets([out / name for name in (*WEB_FILES, *RUNTIME_FILES)], [])
    model, document = to_onnx(predictor, dtype="float64"), predictor.document_  # exactly what csv and npy files hold
    about = {
        "title": document.recipe.title,
        "temperature": document.temperature,
        "coverage": 1 - float(document.alpha),
        "classes": list(document.classes or map(str, range(document.n_classes))),
        "actions": document.answers is not None,
        "lines": list(document.answer_lines),
        "kind": document.input_kind,
    }
    contents = {
        "index.html": files("thermoset.integrations").joinpath("web.html").read_bytes(),
        "about.json": json.dumps(about, ensure_ascii=False, indent=1).encode(),
        "predictor.onnx": model.SerializeToString(),
        **_runtime_files(runtime),
    }
    with errors_about(out, "written"):
        out.mkdir(parents=True, exist_ok=True)
        return write_all(out, contents)


def _runtime_files(runtime: FilePath | None) -> dict[str, bytes]:
    """The three files of onnxruntime-web, from a folder, the cache, or npm."""
    if runtime is not None:
        folder = as_path(runtime)
        for place in (folder, folder / "dist"):
            if all((place / name).is_file() for name in RUNTIME_FILES):
                return {name: (place / name).read_bytes() for name in RUNTIME_FILES}
        raise InputError(
            f"{folder} does not hold {', '.join(RUNTIME_FILES)}. Pass the unpacked npm package onnxruntime-web."
        )
    kept = None
    with suppress(OSError, RuntimeError):  # a user without a home has no such folder
        base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
        kept = Path(base) / "thermoset" / f"onnxruntime-web-{RUNTIME_VERSION}"
        return {name: (kept / name).read_bytes() for name in RUNTIME_FILES}
    contents = _fetch_runtime()
    if kept is not None:
        with suppress(OSError, InputError):  # it is fetched again next time
            kept.mkdir(parents=True, exist_ok=True)
            write_all(kept, contents)
    return contents


def _fetch_runtime() -> dict[str, bytes]:
    npm, package = shutil.which("npm"), f"onnxruntime-web@{RUNTIME_VERSION}"
    remedy = f"Or unpack {package} yourself, and pass its folder as runtime= (--runtime)."
    if npm is None:
        raise MissingExtraError(f"the page needs {package}, which npm fetches. Install Node.js with npm. {remedy}")
    with tempfile.TemporaryDirectory() as folder:
        call = [npm, "pack", package, "--silent", "--pack-destination", folder]
        try:
            subprocess.run(call, check=True, capture_output=True, timeout=_SECONDS, cwd=folder)  # noqa: S603
        except (subprocess.SubprocessError, OSError) as error:
            raise InputError(
                f"npm could not fetch {package} ({type(error).__name__}). Try again later. {remedy}"
            ) from None
        archive = next(Path(folder).glob("*.tgz")).read_bytes()
    contents = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as parts:  # members are read by name; nothing is unpacked
        for name in RUNTIME_FILES:
            member = parts.extractfile(f"package/dist/{name}")
            if member is None:
                raise InputError(f"{package} has no {name}. {remedy}")
            contents[name] = member.read()
    return contents
