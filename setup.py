"""Builds the native kernel of `ottla.records` where it can; all else is in pyproject.toml.

Without a C compiler the install goes on without it, and the kernel in Python does its work.
"""

from setuptools import Extension, setup

NATIVE = "src/ottla/records/native"
MODULES = ("decoding", "gathering", "encoding")


def extensions() -> list[Extension]:
    """The modules in Cython, translated to C in the build folder."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    modules = [
        Extension(
            f"ottla.records.native.{name}",
            [f"{NATIVE}/{name}.pyx"],
            extra_compile_args=["-O3"],
        )
        for name in MODULES
    ]
    translated: list[Extension] = cythonize(
        modules, build_dir="build", include_path=["src"], quiet=True
    )
    for module in translated:
        module.optional = True  # which Cython would not have passed on
    return translated


setup(ext_modules=extensions())
