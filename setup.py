"""The wheel of the Python package: CMake builds it in build/python, with the program and the data it needs beside it.

    pip wheel --no-build-isolation --no-index --no-deps .
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("REHEARSE_BUILD", ROOT / "build"))
DATA = ["platforms/catalog", "workloads/models", "calibration/profiles", "calibration/data", "scenarios", "sim/app/pages"]


class Package(build_py):
    """Takes over what CMake has made, after it has made it."""

    def run(self):
        ready = (BUILD / "CMakeCache.txt").is_file()
        settings = ["-DREHEARSE_PYTHON=ON"] if ready else ["-DREHEARSE_PYTHON=ON", "-DREHEARSE_PREDICTOR=OFF", "-DBUILD_TESTING=OFF",
                                                           "-DCMAKE_BUILD_TYPE=Release"]
        generator = [] if ready or not shutil.which("ninja") else ["-G", "Ninja"]
        subprocess.run(["cmake", "-S", ROOT, "-B", BUILD, *generator, *settings], check=True)
        subprocess.run(["cmake", "--build", BUILD, "--target", "rehearse", "rehearse_python"], check=True)
        package = Path(self.build_lib) / "rehearse"
        shutil.copytree(BUILD / "python" / "rehearse", package, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        (package / "bin").mkdir(exist_ok=True)
        shutil.copy2(BUILD / "rehearse", package / "bin" / "rehearse")
        for folder in DATA:
            shutil.copytree(ROOT / folder, package / "share" / "rehearse" / folder, dirs_exist_ok=True)


class Binary(Distribution):
    def has_ext_modules(self):
        return True


def version():
    return re.search(r"project\(rehearse VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))[1]


setup(
    name="rehearse",
    version=version(),
    description="Discrete-event simulator of distributed deep-network training",
    license="MIT",
    python_requires=">=3.9",
    packages=["rehearse"],
    package_dir={"rehearse": "sim/python/rehearse"},
    cmdclass={"build_py": Package},
    distclass=Binary,
    entry_points={"console_scripts": ["rehearse = rehearse.program:main"]},
)
