#!/bin/sh
# GNU parallel trains the runs of plan.json, one on each core:
#
#   gnomon lab --seeds 3 --steps 600 --list-runs > plan.json
#   sh parallel.sh
#   gnomon lab --merge runs --out report
#
# On other machines with a shared folder: add --sshloginfile HOSTS --workdir .
runs=$(grep -c '"name":' plan.json)
seq 0 $((runs - 1)) | parallel --retries 3 gnomon lab --protocol plan.json --run {} --out runs
