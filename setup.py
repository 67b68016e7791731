"""Builds the native kernels. LSMERGE_DEBUG=1 turns bounds, overflow and initialisation checks on."""

import os
from pathlib import Path

import Cython.Compiler.Options
from Cython.Build import cythonize
from setuptools import Extension, setup

DEBUG = os.environ.get("LSMERGE_DEBUG") == "1"
# What this process may use, which in a container is less than the machine has.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

Cython.Compiler.Options.warning_errors = True

modules = sorted(Path("lsmerge_native").glob("*.pyx"))
headers = sorted(str(header) for header in Path("lsmerge_native/include").glob("*.h"))
extensions = [
    Extension(
        f"lsmerge_native.{module.stem}",
        [str(module)],
        include_dirs=["lsmerge_native"],
        depends=headers,
        extra_compile_args=["-O1", "-g"] if DEBUG else ["-O3", "-g0", "-fno-math-errno"],
    )
    for module in modules
]

setup(
    ext_modules=cythonize(
        extensions,
        # Separate C files per mode: a changed directive alone does not re-generate them.
        build_dir="build/cython-debug" if DEBUG else "build/cython",
        compiler_directives={
            "language_level": "3",
            "boundscheck": DEBUG,
            "wraparound": False,
            "initializedcheck": DEBUG,
            "cdivision": True,
            "overflowcheck": False,
            "autotestdict": False,
            "embedsignature": False,
            "freethreading_compatible": True,
        },
        force=DEBUG,
    ),
    # Also where pip builds, which passes no options on.
    options={"build_ext": {"parallel": CORES}},
)
