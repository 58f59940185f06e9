"""Make `.venv`, or the folder that VENV names: an environment with exactly what `uv.lock` holds.

Needs Python 3.11 or later and a way to a package index, nothing else: no uv, no Java, no root.
The Makefile runs it when the lock is newer than the environment. In order of preference:

    the environment   python -m venv | uv venv (a uv on PATH) | python -m venv --without-pip
    uv inside it      its own pip | this Python's pip | the wheel that uv.lock names, by its hash
    everything else   uv sync --frozen; through the index that pip is configured for, if it is

Arguments are further dependency groups of pyproject.toml to install.

Where none of a row works, one sentence says what to install.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tomllib
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path
from typing import NoReturn

HOUSE = Path(__file__).resolve().parent.parent
VENV = HOUSE / os.environ.get("VENV", ".venv")  # the Makefile says which
BIN = VENV / "bin"
PYTHON = BIN / "python"
UV = BIN / "uv"
LOCK = HOUSE / "uv.lock"
# Where Linux distributions keep the certificates they trust; a company's own are only there.
SYSTEM_CERTIFICATES = (
    Path("/etc/ssl/certs/ca-certificates.crt"),
    Path("/etc/pki/tls/certs/ca-bundle.crt"),
    Path("/etc/ssl/ca-bundle.pem"),
)
LOCK_INDEX_HOST = "pypi.org"
DOWNLOAD_TIMEOUT_S = 300


def main() -> None:
    """Bring the environment up to the lock; do nothing that is already done."""
    os.chdir(HOUSE)
    if sys.version_info < (3, 11):  # noqa: UP036 - the machine's Python may be older than ours
        give_up(f"Dray needs Python 3.11 or later, and this is {platform.python_version()}")
    os.environ.update(settings())
    if not works(PYTHON, "-c", "import sys"):
        say(f"making {VENV.relative_to(HOUSE)} with Python {platform.python_version()}")
        make_environment()
    if not works(UV, "--version"):
        say(f"installing uv into {VENV.relative_to(HOUSE)}")
        install_uv()
    say("installing what uv.lock holds (Spark is large: about a minute the first time)")
    install_locked()


def settings() -> dict[str, str]:
    """Environment variables for pip and uv: this environment, this Python, quiet, patient."""
    found = {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "UV_HTTP_TIMEOUT": os.environ.get("UV_HTTP_TIMEOUT", str(DOWNLOAD_TIMEOUT_S)),
        "UV_PROJECT_ENVIRONMENT": str(VENV),
        "UV_PYTHON": str(PYTHON),
        "UV_PYTHON_DOWNLOADS": "never",
    }
    if any(path.is_file() for path in SYSTEM_CERTIFICATES):
        found["UV_SYSTEM_CERTS"] = "1"
        found["UV_NATIVE_TLS"] = ""  # the older name of the same switch warns when set
    return found


def make_environment() -> None:
    """Create `.venv` afresh. Debian's python3 without python3-venv can only do it without pip."""
    shutil.rmtree(VENV, ignore_errors=True)
    if works(sys.executable, "-m", "venv", str(VENV)):
        return
    if (uv := shutil.which("uv")) and works(uv, "venv", "--clear", "-p", sys.executable, VENV):
        return
    if works(sys.executable, "-m", "venv", "--clear", "--without-pip", str(VENV)):
        return
    give_up(
        f"{sys.executable} cannot make a virtual environment: install its venv module "
        "(on Debian and Ubuntu: apt install python3-venv) and run make again"
    )


def install_uv() -> None:
    """Put uv into `.venv`, by whichever pip there is, or without one."""
    if works(PYTHON, "-m", "pip", "install", "--quiet", "uv"):
        return
    if works(sys.executable, "-m", "pip", "--python", PYTHON, "install", "--quiet", "uv"):
        return
    try:
        unpack_uv(*locked_uv_wheel())
    except (OSError, ValueError) as problem:
        give_up(
            f"uv could not be installed, by pip or without ({problem}): check the network, or "
            "install pip (on Debian and Ubuntu: apt install python3-venv) and run make again"
        )


def locked_uv_wheel() -> tuple[str, str]:
    """Address and SHA-256 of the uv wheel for this machine, as `uv.lock` names them."""
    packages = tomllib.loads(LOCK.read_text("utf-8"))["package"]
    wheels = next(package["wheels"] for package in packages if package["name"] == "uv")
    libc = "manylinux" if platform.libc_ver()[0] == "glibc" else "musllinux"
    for wheel in wheels:
        name = wheel["url"].rpartition("/")[2]
        if libc in name and name.endswith(f"_{platform.machine()}.whl"):
            return wheel["url"], wheel["hash"].removeprefix("sha256:")
    message = f"uv.lock names no uv for {libc} on {platform.machine()}"
    raise ValueError(message)


def unpack_uv(url: str, digest: str) -> None:
    """Download one wheel, compare it with the lock, and take the program out of it."""
    with urllib.request.urlopen(url, timeout=DOWNLOAD_TIMEOUT_S) as answer:  # noqa: S310 - from uv.lock
        wheel = answer.read()
    if hashlib.sha256(wheel).hexdigest() != digest:
        message = f"{url} is not what uv.lock says it is"
        raise ValueError(message)
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        member = next(name for name in archive.namelist() if name.endswith("/scripts/uv"))
        UV.write_bytes(archive.read(member))
    UV.chmod(0o755)


def install_locked() -> None:
    """Install exactly the lock: every extra, the development group, and those asked for."""
    chosen = ["--frozen", "--all-extras"]
    for group in ("dev", *sys.argv[1:]):
        chosen += ["--group", group]
    loud = [] if sys.stderr.isatty() else ["--quiet"]
    index = configured_index()
    if index is None:
        run(UV, "sync", *chosen, *loud)
        return
    # The lock names files of the public index. Take the same files, by hash, from this one.
    say("using the package index that pip is configured for")
    wanted = VENV / "requirements.txt"
    run(UV, "export", *chosen, "--no-emit-project", "--quiet", "--output-file", wanted)
    run(UV, "pip", "sync", "--require-hashes", "--default-index", index, *loud, wanted)
    run(UV, "pip", "install", "--no-deps", "--default-index", index, *loud, "--editable", ".")


def configured_index() -> str | None:
    """The index this machine is told to use, when it is another than the lock's."""
    told = [os.environ.get(name) for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")]
    for python in (PYTHON, sys.executable):
        asked = [python, "-m", "pip", "config", "get", "global.index-url"]
        answer = subprocess.run(asked, capture_output=True, text=True, check=False)
        told.append(answer.stdout.strip() if answer.returncode == 0 else None)
    index = next(filter(None, told), None)
    same = index is None or urllib.parse.urlsplit(index).netloc == LOCK_INDEX_HOST
    return None if same else index


def works(*command: str | Path) -> bool:
    """Whether a command exists and succeeds; what it prints is nobody's business."""
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def run(*command: str | Path) -> None:
    """Run a command that has to succeed; it has said why when it did not."""
    if subprocess.run(command, check=False).returncode:
        give_up("installing the locked packages failed, for the reason above")


def say(line: str) -> None:
    """One line to the person at the terminal."""
    print(f"dray: {line}", file=sys.stderr, flush=True)


def give_up(sentence: str) -> NoReturn:
    """End with one sentence and a failing status."""
    sys.exit(f"dray: {sentence}.")


if __name__ == "__main__":
    main()
