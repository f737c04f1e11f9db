#!/bin/sh
# Runs the tests of what is native (records, readers of messages, syncs), built by gcc with its sanitizers
# of addresses and of undefined behaviour. Usage: tools/kernel_asan.sh [PYTEST ARGUMENTS]. PYTHON names another
# python than that of .venv. The checkout's own build stays as it is. (-s: a report of the sanitizer
# ends the process, and must not be captured.)
set -eu
repo=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-$repo/.venv/bin/python}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

mkdir "$place/src" "$place/site"
cp -r "$repo/src/ottla" "$place/src/ottla"
cp "$repo/setup.py" "$repo/pyproject.toml" "$repo/README.md" "$repo/LICENSE" "$place"
find "$place" -name '*.so' -delete
CFLAGS="-g -fno-omit-frame-pointer -fsanitize=address,undefined" \
LDFLAGS="-fsanitize=address,undefined" \
    python3 -m pip --python "$python" install --quiet --no-deps --target "$place/site" "$place"

# Python's own allocator would hide what lies beyond a block; and Python leaks a little by design.
cd "$repo"
export PYTHONPATH="$place/site" PYTHONMALLOC=malloc
export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
export LD_PRELOAD
"$python" -c "import ottla.records.native.gathering as built; print('tested:', built.__file__)"
[ $# -gt 0 ] || set -- tests/records tests/wire/test_native_reading.py tests/log/test_files.py
"$python" -m pytest -p no:cacheprovider -q -s "$@"
