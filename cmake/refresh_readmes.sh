#!/usr/bin/env bash
# Writes again what the program states in the READMEs, each part between two comments that name it:
#   cmake/refresh_readmes.sh [PART...]       (default: all)
#   keys                scenarios/README.md: the keys of a scenario
#   accuracy            calibration/README.md and README.md: the errors of all studies, and calibration/accuracy_sample.csv, a few
#                       rows by which a test sees that the program still is the one that these are of; about 10 min on 2 cores
#   kernels             calibration/README.md: times of single kernels, each GPU predicted by a fit to the others; 2 min
#   transformers        calibration/README.md: steps of transformers by GPU; 1 min
#   frameworks          calibration/README.md: whole steps on one GPU, as the last calibration/refit.sh frameworks predicted them
#   unseen              calibration/README.md: sources that no fit has seen; 10 s
#   large               calibration/README.md: large models beside other tools; 5 min
#   nccl                calibration/README.md: collectives of NCCL, each number and kind of GPU predicted by the others; 6 min
#   lifetimes           calibration/README.md: laws of lifetimes, as the last calibration/refit.sh lifetimes printed them
#   peers               tests/bench/README.md: simulated times of tests/bench/peers.py; 5 s
#   docs                docs/: what the commands of its pages print, and its pictures; 1 min
#   prediction          predictor/README.md: the errors of predictors, from predictor/accuracy.json
#   prediction=FOLDER   the same, from what tests/bench/prediction.py build/rehearse FOLDER has measured, which becomes that file
#   published=FOLDER    predictor/README.md: the published networks, from what tests/bench/predictor_table.sh FOLDER has measured
#   accuracy=FOLDER     accuracy from what `rehearse validate scenarios/studies/all.json --baselines --computation predicted -o FOLDER` has written
#   intervals=FOLDER    calibration/README.md: what intervals hold, from what calibration/prediction_errors.py FOLDER has measured
#   auto=FOLDER         calibration/README.md: studies by "auto", from the same folder; what it lacks is simulated
# Tests compare these parts with what the program says (tests/sim/app/output/accuracy_document_test.cpp,
# tests/sim/app/output/schema_keys_test.cpp, cmake/readme_tables.py --check, cmake/docs.py --check).
set -euo pipefail

cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
export PATH=$PWD/build:$PATH
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# replace_part README PART TEXT: the lines of file TEXT come between the comments of PART.
replace_part() {
  awk -v part="$2" -v text="$3" '
    $0 == "<!-- " part ": end -->" { is_inside = 0; ++ends; print "" }
    !is_inside
    index($0, "<!-- " part ", written by ") == 1 { is_inside = 1; ++begins; print ""; while ((getline line < text) > 0) print line }
    END { exit !(begins == 1 && ends == 1) }' "$1" > "$scratch/readme" ||
    { echo "refresh_readmes.sh: $1: expected one part \"$2\" between its two comments" >&2; exit 1; }
  cat "$scratch/readme" > "$1"
  echo "$1: $2"
}

[ $# -gt 0 ] || set -- keys kernels transformers frameworks unseen large nccl lifetimes peers docs prediction accuracy
for part in "$@"; do
  case $part in
    keys)
      { echo '```' && rehearse schema scenario --keys && echo '```'; } > "$scratch/keys"
      replace_part scenarios/README.md keys "$scratch/keys"
      ;;
    accuracy | accuracy=*)
      folder=${part#accuracy}
      folder=${folder#=}
      if [ -z "$folder" ]; then
        folder=$scratch/accuracy
        rehearse validate scenarios/studies/all.json --baselines --computation predicted -o "$folder" > "$scratch/printed"
      fi
      replace_part calibration/README.md accuracy "$folder/accuracy.md"
      replace_part README.md headlines "$folder/headlines.md"
      cat "$folder/sample.csv" > calibration/accuracy_sample.csv
      ;;
    kernels | transformers | frameworks | unseen | large | nccl | lifetimes | peers)
      if [ "$part" = nccl ]; then
        for study in nccl nccl-gpus; do
          echo "\$ rehearse calibrate scenarios/studies/$study.json --quiet -o FILE"
          rehearse calibrate "scenarios/studies/$study.json" --quiet -o "$scratch/profile.json" | grep -E "^$study |^    "
        done > "$scratch/printed"
        cat "$scratch/printed" > calibration/nccl_cross_validation.txt
      fi
      cmake/readme_tables.py build/rehearse "$part" > "$scratch/table"
      readme=calibration/README.md
      [ "$part" != peers ] || readme=tests/bench/README.md
      replace_part "$readme" "$part" "$scratch/table"
      ;;
    docs)
      cmake/docs.py build/rehearse --refresh
      ;;
    prediction | prediction=* | published=*)
      measured=accuracy.json
      [ "${part%%=*}" = prediction ] || measured=published_networks.json
      [ "${part#*=}" = "$part" ] || cp "${part#*=}/${measured/published_networks/table}" predictor/$measured
      for table in models clusters testbed measured studies choices published; do
        grep -q "prediction-$table, written" predictor/README.md || continue
        cmake/readme_tables.py build/rehearse "prediction-$table" > "$scratch/table"
        replace_part predictor/README.md "prediction-$table" "$scratch/table"
      done
      ;;
    intervals=* | auto=*)
      option=table
      [ "${part%%=*}" = intervals ] || option=auto
      calibration/prediction_errors.py "${part#*=}" --$option > "$scratch/$option"
      replace_part calibration/README.md "${part%%=*}" "$scratch/$option"
      ;;
    *)
      echo "refresh_readmes.sh: unknown part \"$part\"; known: keys, kernels, transformers, frameworks, unseen, large, nccl, lifetimes, peers, docs, prediction, prediction=FOLDER, published=FOLDER, accuracy, intervals=FOLDER, auto=FOLDER" >&2
      exit 2
      ;;
  esac
done
