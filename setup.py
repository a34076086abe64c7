"""The build: compiles the hot modules with mypyc where a C compiler works, and goes on without where none does.

MIRRORMQ_PURE=1 leaves everything uncompiled; MIRRORMQ_REQUIRE_ALL=1 makes a missing compiler an error. CC is honoured.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HOT = (
    "wire/**/*.py",
    "log/*.py",
    "broker/**/*.py",
    "mirror/**/*.py",
    "cluster/link/*.py",
    "cli/perf/hot/*.py",
)
"""What is compiled, below src/mirrormq."""

COLD = (
    "log/__init__.py",
)
"""What the patterns above take in and should stay interpreted."""

SOURCE = Path("src/mirrormq")
PROBE = "#include <Python.h>\nint main(void) { return Py_IsInitialized(); }\n"


def hot_modules() -> list[str]:
    cold = {SOURCE / name for name in COLD}
    return sorted(str(path) for pattern in HOT for path in SOURCE.glob(pattern) if path not in cold)


def compiler_problem() -> str:
    """Why C extensions cannot be built here, or nothing if they can."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    include = f"-I{sysconfig.get_path('include')}"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text(PROBE)
        command = [*compiler, include, "-c", str(source), "-o", str(source.with_suffix(".o"))]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except OSError as error:
            words = f"'{shlex.join(compiler)}' cannot be run ({error.strerror})"
            return f"{words}; Debian's packages are gcc and python3-dev"
        except subprocess.CalledProcessError as error:
            return f"'{shlex.join(compiler)}' fails on a one-line program: {error.stderr.strip().splitlines()[0]}"
    return ""


def forget_removed_modules() -> None:
    """The build folder is kept between builds; a module that is gone from the sources must not live on in it."""
    for copy in Path("build").glob("lib*/mirrormq/**/*.py"):
        if not Path("src", *copy.parts[2:]).exists():
            copy.unlink()
    hot = {Path(*Path(module).parts[1:]).with_suffix("") for module in hot_modules()}
    for library in Path("build").glob("lib*/mirrormq/**/*.so"):
        module = Path(*library.parts[2:])
        if module.with_name(module.name.split(".")[0]) not in hot:
            library.unlink()


def reason_not_to_compile() -> str:
    if os.environ.get("MIRRORMQ_PURE") == "1":
        return "MIRRORMQ_PURE=1 asks for it"
    problem = compiler_problem()
    return f"no C compiler works here: {problem}" if problem else ""


def extensions() -> list[Extension]:
    if "dist_info" in sys.argv or "egg_info" in sys.argv:
        return []  # only the names and versions are asked for
    reason = reason_not_to_compile()
    Path("build").mkdir(exist_ok=True)
    Path("build/uncompiled").write_text(reason)
    if not reason:
        from mypyc.build import mypycify  # not needed where nothing is compiled

        compiled = mypycify(hot_modules(), opt_level="3", debug_level="0", group_name="mirrormq", multi_file=True)
        for extension in compiled:  # a compiler newer than ours may warn of more
            extension.extra_compile_args = [arg for arg in extension.extra_compile_args if arg != "-Werror"]
        return compiled
    if os.environ.get("MIRRORMQ_REQUIRE_ALL") == "1":
        sys.exit(f"MirrorMQ must be compiled here, but {reason}")
    print(f"warning: MirrorMQ is installed uncompiled, and slower: {reason}", file=sys.stderr)
    return []


class ParallelBuild(build_ext):
    """Compiles on all cores, and only what changed: the hot modules are a hundred C files and minutes of work."""

    def build_extensions(self) -> None:
        compile_one, link = self.compiler._compile, self.compiler.link
        compiled: dict[str, Future[None]] = {}
        headers = max((path.stat().st_mtime for path in Path("build").glob("*.h")), default=0)

        def start(obj: str, source: str, *rest: Any) -> None:
            if not Path(obj).exists() or Path(obj).stat().st_mtime < max(headers, Path(source).stat().st_mtime):
                compiled[obj] = pool.submit(compile_one, obj, source, *rest)

        def link_when_compiled(description: str, objects: list[str], *rest: Any, **named: Any) -> None:
            for obj in objects:
                if obj in compiled:
                    compiled[obj].result()
            link(description, objects, *rest, **named)

        self.parallel = os.cpu_count()
        self.compiler._compile, self.compiler.link = start, link_when_compiled
        with ThreadPoolExecutor(self.parallel) as pool:
            super().build_extensions()


forget_removed_modules()
setup(ext_modules=extensions(), cmdclass={"build_ext": ParallelBuild})
