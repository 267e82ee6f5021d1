#!/bin/sh
# Starts the machines of a plan. Written by rehearse, which has not run it: what it starts costs money.
#   machines: 2 x p5.48xlarge (aws, us-east-1, on demand)
# sh launch.sh            all of them
# sh launch.sh GROUP N    N more of a group, in place of machines that were taken back
# machines exchanges over EFA in the plan: its machines need an interface of that kind on each network card (--network-interfaces).
set -eu
: "${IMAGE:?expected the machine image, ami-...}"
: "${KEY:?expected the name of the key pair}"
: "${PLACEMENT_GROUP:?expected a placement group (strategy cluster) of the region}"

start() {
  case $1 in
    machines) aws ec2 run-instances --region 'us-east-1' --instance-type 'p5.48xlarge' --count "$2" --image-id "$IMAGE" --key-name "$KEY" --placement "GroupName=$PLACEMENT_GROUP" --tag-specifications 'ResourceType=instance,Tags=[{Key=Name,Value=machines}]' ;;
    *) echo "launch.sh: unknown group $1" >&2; exit 2 ;;
  esac
}

if [ $# -eq 2 ]; then
  start "$1" "$2"
else
  start machines 2
fi
