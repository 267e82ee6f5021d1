#!/usr/bin/env bash
# Training steps of the published networks beside PyTorch with the operations as published, in turn, one thread:
#   tests/bench/predictor_step.sh [ROUNDS]        (needs python3-torch and libopenblas0-pthread)
# Processor milliseconds per step of 32 graphs of 100 nodes, hidden 64, and their ratio. GAT and MPNN run 6 iterations instead of 50,
# because all pairs of nodes of 50 would need 20 to 30 GB in Python.
set -euo pipefail

cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source cmake/setup.sh
need predictor tests
build predictor_step rehearse
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
build/rehearse generate scenarios/spaces/reference.json --count 128 --quiet -o "$data/reference.db" >/dev/null
for _ in $(seq "${1:-3}"); do build/tests/bench/predictor_step learnt "$data/reference.db" 32 3; done |
  sort -k4 -n | awk '{ own[NR] = $4 } END { printf "learnt       own %7.1f ms, 32 graphs of the reference space\n", own[int((NR + 1) / 2)] }'
for case in "gcn Nover2" "gin Nover2" "gcn log2N" "gin log2N" "gat log2N" "mpnn log2N"; do
  for _ in $(seq "${1:-3}"); do
    own=$(build/tests/bench/predictor_step $case 32 3)
    flushed=$(/usr/bin/python3 tests/bench/predictor_step.py $case 32 2 flushed)
    kept=$(/usr/bin/python3 tests/bench/predictor_step.py $case 32 2 kept)
    echo "$own $flushed $kept"
  done | sort -k4 -n | awk '
    { own[NR] = $4; flushed[NR] = $9; kept[NR] = $14; name = $1 " " $2 }
    function middle(v, n,   i, j, t) { for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j-1] > v[j]; j--) { t = v[j]; v[j] = v[j-1]; v[j-1] = t }
      return v[int((n + 1) / 2)] }
    END { o = middle(own, NR); f = middle(flushed, NR); k = middle(kept, NR)
      printf "%-12s own %7.1f ms   PyTorch %7.1f ms, ratio %5.2f   as published, with denormal numbers %7.1f ms, ratio %5.2f\n", name, o, f, f / o, k, k / o }'
done
