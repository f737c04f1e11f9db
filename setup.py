"""Builds what is native in `ottla.log`, `ottla.records` and `ottla.wire` where it can; all else is
in pyproject.toml.

Without a C compiler the install goes on without it, and its twin in Python does the work.
"""

from setuptools import Extension, setup

MODULES = (
    "ottla.log.native.syncing",
    "ottla.records.native.decoding",
    "ottla.records.native.encoding",
    "ottla.records.native.examining",
    "ottla.records.native.gathering",
    "ottla.wire.native.reading",
)


def extensions() -> list[Extension]:
    """The modules in Cython, translated to C in the build folder."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    modules = [
        Extension(
            name,
            [f"src/{name.replace('.', '/')}.pyx"],
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
