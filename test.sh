#!/usr/bin/env bash
# ./test.sh [--fast] [ARGUMENT OF CTEST ...]
# Installs what is missing, builds everything, runs every test; --fast leaves out the slow ones: long fuzzing, training
# of networks, statistics of many runs.  Last line: how many test cases passed and failed.
set -euo pipefail

cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
selection=() is_fast=0
for argument in "$@"; do
  case "$argument" in
    -h | --help) sed -n '2,/^set/s/^# //p' test.sh && exit ;;
    --fast) selection+=(-LE slow) is_fast=1 ;;
    *) selection+=("$argument") ;;
  esac
done

source cmake/setup.sh
need predictor python tests distribution
[ "$is_fast" -eq 1 ] || install_missing tshark || echo "without tshark, captures are compared with its recorded figures alone" >&2
[ "$is_fast" -eq 1 ] || install_missing slurm-wlm slurm-wlm-basic-plugins munge || echo "without Slurm, its test is skipped" >&2
[ "$is_fast" -eq 1 ] || install_missing zsh fish || echo "without zsh and fish, their completions are not tried" >&2
[ "$is_fast" -eq 1 ] || install_missing mkdocs mkdocs-material || echo "without mkdocs, the site of the documentation is not built" >&2
build

status=0
ctest --test-dir build --output-on-failure -j2 "${selection[@]}" || status=$?

# A doctest program counts with its cases, any other test and any program that died before its summary counts as one;
# so does whatever else made ctest fail.
awk -v status="$status" '
  / Testing: / { cases = 0 }
  /^\[doctest\] test cases: / {
    split($0, part, "|"); sub(/^ */, "", part[2]); sub(/^ */, "", part[3])
    passed += part[2]; failed_here = part[3] + 0; failed += failed_here; cases = 1
  }
  /^Test Passed\./ { if (!cases) passed += 1 }
  /^Test Failed\./ { if (!cases || !failed_here) failed += 1 }
  END { if (status && !failed) failed = 1; printf "%d passed, %d failed\n", passed, failed; exit passed == 0 || failed > 0 }
' build/Testing/Temporary/LastTest.log || status=1
exit "$status"
