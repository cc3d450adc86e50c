#!/bin/bash
#SBATCH --job-name=lab --cpus-per-task=1 --mem=2G --requeue --output=lab-%a.log
# Each task of the array trains one run of plan.json. With 18 runs, at most 100 at a time:
#
#   gnomon lab --seeds 3 --steps 600 --list-runs > plan.json
#   sbatch --wait --array=0-17%100 slurm.sh
#   gnomon lab --merge runs --out report
gnomon lab --protocol plan.json --run "$SLURM_ARRAY_TASK_ID" --out runs
