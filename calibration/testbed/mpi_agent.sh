#!/bin/sh
# Launch agent of mpirun: runs a command on the node that has an address, as ssh would, under a host name of its own.
# usage: mpi_agent.sh 10.77.0.2 COMMAND...
node=n$((${1##*.} - 1))
shift
exec ip netns exec "$node" unshare --uts sh -c 'hostname "$0" && exec sh -c "$1"' "$node" "$*"
