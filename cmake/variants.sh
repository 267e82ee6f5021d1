#!/usr/bin/env bash
# cmake/variants.sh [VARIANT...]: builds what ./test.sh does not, without the predictor and each source by itself, so that a
# missing include is found, and runs the tests of modules there, and the fuzzers' corpus. Variants (default: all):
#   clang      Release, with clang 19 (16 is the first that has structured bindings in lambdas)
#   sanitize   address and undefined-behaviour sanitizers; about an hour on two cores
# Last line of each: what CTest says of it.
set -euo pipefail

cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
modules='^(base|platforms|workloads|traces|importers|resources|collective|scenario|record|traffic|program|training|job|pool|view|calibration|plan|predictor|corrected|driple|microbench|structure|fuzz_corpus)$'
case "${1-}" in -h | --help) sed -n '2,/^set/s/^# //p' "$0" && exit ;; esac

[ $# -gt 0 ] || set -- clang sanitize
source cmake/setup.sh
need tests
install_missing clang-19
for variant in "$@"; do
  mkdir -p "build-$variant"
  log=build-$variant/build.log
  options=(-DREHEARSE_PREDICTOR=OFF -DREHEARSE_MICROBENCH=OFF)  # whose headers, of LibTorch, clang refuses
  [ "$variant" != clang ] || options+=(-DCMAKE_CXX_COMPILER=clang++-19)
  echo "$variant: building; its output is in $PWD/$log" >&2
  if ! { cmake --preset "$variant" "${options[@]}" && cmake --build --preset "$variant"; } > "$log" 2>&1 < /dev/null; then
    cat "$log" >&2
    echo "error: variant $variant does not build" >&2
    exit 1
  fi
  ctest --test-dir "build-$variant" -R "$modules" -j2 --output-on-failure --timeout 3600 >&2
done
