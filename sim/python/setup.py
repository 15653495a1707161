"""Builds the extension with ./rehearse and puts the package, its helpers and the data together.

The package holds share/rehearse with models, clusters, plans and profiles, where the program looks
for them (sim/input/text/locate.cpp), and beside it the program's network helper. REHEARSE_BUILD names
a finished build folder to take instead of build/release.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
GIVEN = os.environ.get("REHEARSE_BUILD")
BUILD = pathlib.Path(GIVEN) if GIVEN else ROOT / "build" / "release"
DATA = ("models", "topologies", "workloads", "calibration", "sim/schemas")


def version():
    found = re.search(r"project\(rehearse VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())
    return found.group(1)


class Build(build_py):
    def run(self):
        super().run()
        module = BUILD / "python" / "rehearse" / f"_rehearse{sysconfig.get_config_var('EXT_SUFFIX')}"
        if not GIVEN:  # the launcher brings the build up to date, or does nothing
            subprocess.run([str(ROOT / "rehearse"), "--version"], check=True)
        if not module.is_file() and not GIVEN:  # the build took another Python than this one
            configure = ["cmake", "-S", ROOT, "-B", BUILD, "-U", "*Python3*"]
            subprocess.run([*configure, f"-DPython3_EXECUTABLE={sys.executable}"], check=True)
            subprocess.run(["ninja", "-C", BUILD, "python-module"], check=True)
            subprocess.run(configure, check=True)  # as ./rehearse has it
        if not module.is_file():
            raise SystemExit(f"the build has no {module.name}: install pybind11-dev and python3-dev, "
                             f"and use the Python that {BUILD}/configure.log names")
        package = pathlib.Path(self.build_lib) / "rehearse"
        shutil.copy2(module, package)
        shutil.copy2(BUILD / "rehearse-network", package)
        for name in DATA:
            shutil.copytree(ROOT / name, package / "share" / "rehearse" / name, dirs_exist_ok=True)


class Binary(Distribution):
    def has_ext_modules(self):
        return True


setup(version=version(), packages=["rehearse"], package_dir={"rehearse": "package"},
      package_data={"rehearse": ["py.typed", "*.pyi"]}, distclass=Binary,
      cmdclass={"build_py": Build})
