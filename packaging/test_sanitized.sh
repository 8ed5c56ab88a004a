#!/usr/bin/env bash
# The tests of the kernels under AddressSanitizer and UndefinedBehaviorSanitizer.
#
#     packaging/test_sanitized.sh [TEST ...]
#
# Builds the kernels with -fsanitize=address,undefined in a new environment and runs
# the folders of tests that belong to packages with kernels and the fits that are halted
# and continued (tests/test_freed_memory.py), or TEST. A report of either sanitizer ends
# the run. Linux and gcc. Tests of peers that are not installed skip.
set -euo pipefail
cd "$(dirname "$0")/.."
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
if [ $# -eq 0 ]; then
  set -- --everything
  for part in $(find sklstruct -name '*.pyx' | cut -d/ -f2 | sort -u); do
    set -- "$@" "tests/$part"
  done
  set -- "$@" tests/test_freed_memory.py
  # Files that are about processes, time and peers run the kernels that others run.
  for name in checkpoint path; do
    set -- "$@" "--ignore-glob=*/test_$name.py"
  done
fi
python3 -m venv "$work/venv"
. "$work/venv/bin/activate"
echo "== sanitized build"
python -m pip install --quiet pytest hypothesis pandas \
  -Csetup-args=-Db_sanitize=address,undefined -Csetup-args=-Db_lundef=false \
  -Csetup-args=-Doptimization=1 -Cbuild-dir="$work/build" ".[plot]"
# A report of undefined behaviour ends the process; scikit-learn's and NumPy's own
# modules are not instrumented. The interpreter keeps memory until it ends.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export PYTHONMALLOC=malloc
echo "== tests"
for library in libasan.so libubsan.so; do
  preload="${preload:+$preload:}$(gcc -print-file-name=$library)"
done
LD_PRELOAD="$preload" python -P -m pytest -q -x -s -p no:cacheprovider "$@"
