"""Compiling kernels, and keeping what was compiled.

Numba's own cache knows a kernel by the file it stands in: after an edit of a function that the kernel calls in another
file, the old machine code still runs. Two processes that fill it at once may mix up their entries, and a truncated
entry stops every run. Here each compiled kernel is one file, named by a hash of what it depends on, in a folder named
by a hash of all kernel sources. It appears whole or not at all and begins with a checksum: a damaged one is compiled
again.
"""

import contextlib
import gc
import hashlib
import os
import pickle
import secrets
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import njit
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
from numba.core.serialize import dumps

from thermoset.errors import CacheWarning

__all__ = ["KernelUse", "allocating_part", "cache_folder", "kernel", "kernels_used", "leaf_kernel", "part"]

_F = TypeVar("_F", bound=Callable[..., Any])
_PACKAGE = Path(__file__).parent
_MARKS = (
    b"@kernel\n",
    b"@leaf_kernel\n",
    b"@part\n",
    b"@allocating_part\n",
)  # a source file with such a line in it holds kernels
_CHECKSUM = hashlib.sha256().digest_size
_KEPT_FOLDERS = 4  # of earlier sources, for those who go back and forth between them


def kernel(function: _F) -> _F:
    """Compile a plain loop: no GIL, kept on disk where that can be done, IEEE arithmetic as written.

    NUMBA_DISABLE_JIT is for looking into one's own functions, and does not concern these: as plain Python they would
    give other bits, after hours.
    """
    return _compiled(function, counts_references=True)


def leaf_kernel(function: _F) -> _F:
    """Compile a short loop that allocates nothing and returns no array: without counting references.

    Records of arrays then cost nothing to make and to pass on; counted, they cost more than a short loop does.
    """
    return _compiled(function, counts_references=False)


def part(function: _F) -> _F:
    """Compile a short loop as a part of the kernels that call it, without counting references.

    Numba would optimise every function, turn it into machine code and wrap it for Python, and then do the first two
    again for each function that calls it, which was about half of the time. A part is only handed on to
    the kernels, which are optimised as a whole. Called from Python it becomes a kernel of its own.
    """
    return _compiled_part(function, counts_references=False)


def allocating_part(function: _F) -> _F:
    """Compile a part that allocates arrays."""
    return _compiled_part(function, counts_references=True)


def _compiled(function: _F, *, counts_references: bool) -> _F:
    with _jit_enabled():
        dispatcher = njit(nogil=True, error_model="numpy", _nrt=counts_references, no_cfunc_wrapper=True)(function)
    dispatcher._cache = _Kept(function, counts_references=counts_references)
    _kept.append(dispatcher._cache)
    dispatcher.compile = _uncollected()(dispatcher.compile)
    return _always_compiled(dispatcher)  # type: ignore[no-any-return]


def _compiled_part(function: _F, *, counts_references: bool) -> _F:
    # Without the cache: what is kept is whole kernels.
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": _PartCompiler}
    with _jit_enabled():
        dispatcher = njit(nogil=True, error_model="numpy", _nrt=counts_references, **options)(function)
    alone = cache(partial(_compiled, function, counts_references=counts_references))

    def add_overload(compiled: Any) -> None:
        """What Numba does, but for its table of calls from Python: there is nothing to call."""
        found = compiled._replace(entry_point=partial(function))  # what callers know it by
        dispatcher.targetctx.insert_user_function(found.entry_point, found.fndesc, [found.library])
        dispatcher.overloads[tuple(found.signature.args)] = found

    dispatcher.add_overload = add_overload
    dispatcher._compile_for_args = lambda *_, **__: alone()  # what a call from Python goes to
    return _always_compiled(dispatcher)  # type: ignore[no-any-return]


def _always_compiled(dispatcher: Any) -> Any:
    if numba.config.DISABLE_JIT:  # Numba's own functions are compiled along with the first call
        dispatcher.compile = _jit_enabled()(dispatcher.compile)
    return dispatcher


class _PartCompiler(Compiler):  # type: ignore[misc]
    """The compiler of parts: as far as LLVM's intermediate code."""

    def define_pipelines(self) -> Any:
        """The usual passes, into a library of our own."""
        self.state.flags.no_compile = True
        self.state.library = _PartLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super().define_pipelines()


class _PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a part with the parts it calls, to be linked into kernels."""

    def finalize(self) -> None:
        """Put the parts together; do not optimise them, nor make machine code."""
        for library in dict.fromkeys(self._linking_libraries):
            if hasattr(self, "_reload_init"):  # older Numbas keep elsewhere what must run before code is loaded
                self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002
        """There is none."""
        return 0


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Without looking for garbage: compiling makes millions of objects that stay, and the search took a tenth of it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def _jit_enabled() -> Iterator[None]:
    disabled, numba.config.DISABLE_JIT = numba.config.DISABLE_JIT, 0
    try:
        yield
    finally:
        numba.config.DISABLE_JIT = disabled


@cache
def source_digest(package: Path = _PACKAGE) -> str:
    """A hash of every source file that holds kernels, by name and content."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        source = path.read_bytes()
        if any(mark in source for mark in _MARKS):
            digest.update(f"{path.relative_to(package).as_posix()}\0{len(source)}\0".encode())
            digest.update(source)
    return digest.hexdigest()[:16]


def cache_folder() -> Path | None:
    """The folder for compiled code: below NUMBA_CACHE_DIR, else beside the package, else in the user's cache.

    None where nothing can be written.
    """
    return _find_folder(os.environ.get("NUMBA_CACHE_DIR", ""))


@cache
def _find_folder(asked: str) -> Path | None:
    from numba.misc.appdirs import user_cache_dir  # noqa: PLC0415 - only where something is compiled

    name = f"thermoset-{source_digest()}"
    roots = [Path(asked)] if asked else [_PACKAGE / "__pycache__", Path(user_cache_dir("thermoset", appauthor=False))]
    for root in roots:
        folder = root / name
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            _forget_older(root, folder)
            return folder
    # Nowhere to write: what somebody else compiled into one of these folders may still be read.
    return next((root / name for root in roots if (root / name).is_dir()), None)


def _forget_older(root: Path, folder: Path) -> None:
    """Remove the folders of all but the latest earlier sources."""
    with contextlib.suppress(OSError):
        older = sorted((path for path in root.glob("thermoset-*") if path != folder), key=lambda p: p.stat().st_mtime)
        for path in older[:-_KEPT_FOLDERS]:
            shutil.rmtree(path, ignore_errors=True)


@dataclass
class KernelUse:
    """What this process has done with a kernel: loaded from disk or compiled so many times, and why it was not kept."""

    name: str
    loaded: int = 0
    compiled: int = 0
    unkept: str | None = None


def kernels_used() -> list[KernelUse]:
    """What this process has done with each kernel that it has imported, as of now."""
    return [replace(one.use) for one in _kept]


class _Kept:
    """What a dispatcher of Numba asks of a cache, for one kernel."""

    def __init__(self, function: Callable[..., Any], *, counts_references: bool) -> None:
        self._counts_references = counts_references
        self.use = KernelUse(f"{function.__module__}.{function.__qualname__}".replace("<", "").replace(">", ""))
        self._code = function.__code__

    @property
    def cache_path(self) -> str | None:
        """Where compiled code is kept."""
        folder = cache_folder()
        return None if folder is None else str(folder)

    def load_overload(self, signature: Any, target: Any) -> Any:
        """The compiled kernel for these types, or None: it has to be compiled."""
        if self._counts_references:
            target.refresh()  # half a second of imports: memory management, and what the kernel was compiled from
        path = self._path(signature, target.codegen())
        if path is None:
            return None
        try:
            content = path.read_bytes()
        except OSError:
            return None
        checksum, payload = content[:_CHECKSUM], content[_CHECKSUM:]
        if hashlib.sha256(payload).digest() != checksum:
            _warn_once(f"Damaged compiled code in {path}: compiling it again.")
            return None
        # What this process or another one like it has written: nobody who cannot change the package can change it.
        found = CompileResult._rebuild(target, *pickle.loads(payload))  # noqa: S301
        self.use.loaded += 1
        return found

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep a compiled kernel, whole or not at all; say so, and go on, if that cannot be done."""
        path = self._path(signature, compiled.codegen)
        self.use.compiled += 1
        if path is None:
            self._warn_unkept("Compiled code cannot be cached: no folder for it is writable. " + _REMEDY)
            return
        payload = dumps(compiled._reduce())
        hidden = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
        try:
            hidden.write_bytes(hashlib.sha256(payload).digest() + payload)
            hidden.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                hidden.unlink(missing_ok=True)
            self._warn_unkept(f"Compiled code cannot be cached in {path.parent} ({error.strerror or error}). {_REMEDY}")

    def _warn_unkept(self, message: str) -> None:
        self.use.unkept = message
        _warn_once(message)

    def flush(self) -> None:
        """Nothing: entries are found by content, and none is ever out of date."""

    def _path(self, signature: Any, codegen: Any) -> Path | None:
        folder = cache_folder()
        code = (self._code.co_code, repr(self._code.co_consts))
        versions = (numba.__version__, sys.implementation.cache_tag)
        key = hashlib.sha256(repr((signature, codegen.magic_tuple(), versions, code)).encode()).hexdigest()[:24]
        return None if folder is None else folder / f"{self.use.name}-{key}.nbc"


_REMEDY = "Every process will compile it again; set NUMBA_CACHE_DIR to a writable folder."
_warned: set[str] = set()
_kept: list[_Kept] = []


def _warn_once(message: str) -> None:
    """Warn once in a process and for one reason: a hundred kernels have the same trouble."""
    reason = message.partition(" in ")[0]
    if reason not in _warned:
        _warned.add(reason)
        warnings.warn(message, CacheWarning, stacklevel=2)
