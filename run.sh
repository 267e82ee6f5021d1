#!/usr/bin/env bash
# ./run.sh ARGS...  installs what is missing, builds, and is then `rehearse ARGS...`, in the caller's folder.
# ./run.sh          does so for the main job: simulates a measured cluster, prints simulated beside measured, writes the report.
set -euo pipefail

root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
caller=$PWD
cd "$root"
source cmake/setup.sh
case "${1:-}" in
  train | compare)
    need predictor
    build rehearse rehearse-predictor ;;
  predict)  # our own network and the corrected engine without it; it was built to train a published one
    need
    if [ -e build/rehearse-predictor ]; then build rehearse rehearse-predictor; else build rehearse; fi ;;
  microbench)
    need predictor
    build rehearse rehearse-microbench ;;
  view)
    need
    build rehearse rehearse-view ;;
  import)
    need
    build rehearse
    if (cd "$caller" && "$root/build/rehearse" "$@" --dry-run) 2> /dev/null | grep -q ", which rehearse-predictor reads$"; then
      need predictor
      build rehearse rehearse-predictor
    fi ;;
  *)
    need
    build rehearse ;;
esac

if [ $# -gt 0 ]; then
  cd "$caller"
  exec "$root/build/rehearse" "$@"
fi

mkdir -p results
build/rehearse validate scenarios/studies/cm-dare-cluster.json -o results/cm-dare-cluster >results/cm-dare-cluster.txt
build/rehearse simulate scenarios/cm-dare.json -o results/cm-dare
echo
sed -n '/simulated against measured, errors in %/,/^gpu /p' results/cm-dare-cluster.txt
echo
echo "every row: $root/results/cm-dare-cluster.txt; reports: $root/results/cm-dare-cluster/report.html, $root/results/cm-dare/report.html"
