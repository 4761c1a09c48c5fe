#!/bin/sh
# Who leaks: leader, plain child, TERM-ignoring child, setsid child, `env -i setsid` double fork.
# Each process has its own number in front of the token, which distinguishes it from the others and from strangers.
sleep "100001.$1" &
(trap '' TERM HUP INT; exec sleep "100002.$1") &
setsid sleep "100003.$1" &
env -i setsid sh -c "sleep 100004.$1 & exit 0" &
echo ready
while read -r word code; do
  if [ "$word" = exit ]; then exit "$code"; fi
done
# Who held its stdin is gone; that alone is no reason to go.
exec sleep "100000.$1"
