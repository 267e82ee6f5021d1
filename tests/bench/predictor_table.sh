#!/usr/bin/env bash
# Our network, the four published ones and simple predictors on the same graphs: 320 graphs in each of four of Driple's
# settings, 192 to train, 64 to stop early, 64 unseen ones to test; one thread:
#   tests/bench/predictor_table.sh FOLDER [MINUTES] [SETTINGS]     goes on where it was interrupted
# The published networks are trained as published (hidden 64, constant rate, one network for each setting; GAT and MPNN
# with log2 N instead of N / 2 convolutions, which would take hours), ours once for all settings. All have 30 epochs; with
# MINUTES each published one has those of Driple, 100,000 of which 1,000 may be without gain, until the minutes are over: the
# table says how many it had, and which was the best. More MINUTES go on from there. SETTINGS of the four, the first ones, are
# asked for (all). FOLDER/table.json is what cmake/refresh_readmes.sh published=FOLDER writes into predictor/README.md.
set -euo pipefail

folder=$(mkdir -p "$1" && readlink -f "$1")
minutes=${2:-}
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
program=${REHEARSE:-build/rehearse}
settings=("driple/01-v100-ps1-w2 synchronous" "driple/04-2080ti-ps1-w3 asynchronous" "driple/09-2080ti-ps4-w4 synchronous" "driple/12-2080ti-ps5-w5 asynchronous")
settings=("${settings[@]:0:${3:-4}}")
chosen=()
for setting in "${settings[@]}"; do chosen+=(--setting "$setting"); done

[ -e "$folder/data.db" ] || "$program" generate scenarios/spaces/reference.json "${chosen[@]}" --count $((320 * ${#settings[@]})) -o "$folder/data.db"
train() {  # NAME SECONDS OPTIONS...: the seconds that all calls took go to NAME.s, what it came to to NAME.json
  local name=$1 most=$2 start=$SECONDS status=0 spent=0 budget=()
  shift 2
  [ ! -e "$folder/$name.s" ] || spent=$(<"$folder/$name.s")
  [ ! -e "$folder/$name/report.html" ] || return 0  # it is done
  if [ -n "$most" ]; then
    [ $((most - spent)) -ge 60 ] || return 0  # it had its minutes
    budget=(--max-wall-time $((most - spent))s)
  fi
  "$program" train "$folder/data.db" -o "$folder/$name" --quiet --json "$@" "${budget[@]}" >"$folder/$name.json" 2>"$folder/$name.log" || status=$?
  cat "$folder/$name.log" >&2
  [ $status = 0 ] || { [ $status = 3 ] && [ -e "$folder/$name/model.pt" ]; } || exit $status  # 3: the minutes are over
  echo $((spent + SECONDS - start)) >"$folder/$name.s"
}
train profile "" --epochs 30
for i in "${!settings[@]}"; do
  networks=()
  for network in gcn gin gat mpnn; do
    rule=Nover2
    case $network in gat | mpnn) rule=log2N ;; esac
    budget=(--epochs 30 --constant-lr --fixed-batches)
    [ -z "$minutes" ] || budget=(--budget published)
    train "$network-$i" "${minutes:+$((minutes * 60))}" --network $network --iterations $rule "${budget[@]}" --setting "${settings[i]}"
    networks+=("$folder/$network-$i")
  done
  "$program" compare "$folder/profile" "${networks[@]}" "$folder/data.db" --setting "${settings[i]}" -o "$folder/comparison-$i" >/dev/null
done
python3 tests/bench/predictor_table.py "$folder" "${settings[@]}"
