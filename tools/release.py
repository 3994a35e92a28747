"""Build the wheel and the sdist, and use both as a stranger would: `make release`.

The wheel is built from the unpacked sdist, so what is missing there is missing here. Each is installed with its
dependencies alone into an environment of its own, outside the repository.
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
PUBLIC_NAMES = """
import thermoset
extras = []
for name in [*thermoset.__all__, "open"]:
    try:
        getattr(thermoset, name)
    except thermoset.MissingExtraError as error:
        extras.append(f"{name}: {error}")
print(len(thermoset.__all__), "public names of", thermoset.__version__, *extras, sep="\\n  ")
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command, show it and what it says, and end if it fails."""
    print("$", " ".join(map(str, command)), flush=True)
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # noqa: S603
    if done.returncode:
        sys.exit(f"{done.stdout}\nrelease: exit code {done.returncode} from the last command above")
    return done.stdout


def built(folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist, with metadata that an index would take."""
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    print(run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist, cwd=folder))
    return wheel, sdist


def installed(archive: Path, folder: Path) -> Path:
    """A new environment that has the archive and what it needs, and nothing of this repository."""
    environment = folder / f"from-{archive.suffix[1:]}"
    venv.create(environment, with_pip=True)
    run(environment / "bin" / "python", "-m", "pip", "install", "--quiet", archive, cwd=folder)
    return environment / "bin"


def tried(commands: Path, folder: Path) -> None:
    """The version and every public name."""
    print(run(commands / "thermoset", "--version", cwd=folder), end="")
    print(run(commands / "python", "-c", PUBLIC_NAMES, cwd=folder))


def main() -> None:
    """Build, install, use."""
    with tempfile.TemporaryDirectory(prefix="thermoset-release-") as name:
        folder = Path(name)
        wheel, sdist = built(folder)
        bare = installed(wheel, folder)
        tried(bare, folder)
        print(run(bare / "thermoset", "demo", "--out", "demo", cwd=folder))
        mypy = (sys.executable, "-m", "mypy", "--python-executable", bare / "python", "--cache-dir", folder / "mypy")
        print(run(*mypy, cwd=ROOT / "tests" / "typed_client"))
        tried(installed(sdist, folder), folder)
    print("release: wheel and sdist are good")


if __name__ == "__main__":
    main()
