#!/bin/sh
# Every process writes a line when it gets TERM: the leader, its child, one in a session of its own, a daemon, and one that
# is stopped and can only do so if it is woken.
#   goodbye.sh <token> [<role>]
role=${2:-leader}
trap 'echo "bye $role"; exit 0' TERM
case $role in
leader)
  "$0" "$1" child &
  setsid "$0" "$1" session &
  "$0" "$1" stopped &
  env -i setsid sh -c "$0 $1 daemon & exit 0" &
  ;;
stopped)
  echo "here $role"
  kill -STOP $$
  ;;
esac
[ "$role" = stopped ] || echo "here $role"
while :; do sleep "1000.$1"; done
