#!/usr/bin/env bash
# The tests with the oldest versions of run-time dependencies that pyproject.toml allows.
#
#     packaging/test_oldest.sh [WHEEL | .] [TEST ...]
#
# By default the source tree is compiled; a wheel of build_wheel.sh spares that.
set -euo pipefail
root="$(cd "$(dirname "$0")/.." && pwd)"
what="${1:-$root}"
[ "$what" = . ] && what="$root"
[ -e "$what" ] || { echo "no such wheel: $what"; exit 2; }
what="$(realpath "$what")"
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- tests --everything
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
python3 "$root/packaging/oldest.py" > "$work/oldest.txt"
cat "$work/oldest.txt"
"$work/venv/bin/python" -m pip install --quiet -r "$work/oldest.txt" "$what"
cd "$root"
"$work/venv/bin/pytest" -q -p no:cacheprovider "$@"
