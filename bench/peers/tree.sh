#!/bin/sh
# Starts six processes that try to outlive their parent, and waits. $1 is the number that their `sleep` begins with: the
# digit after it says which one it is.
n=$1
# 1 In the background.
sleep "${n}1" &
# 2 In a session of its own.
setsid sleep "${n}2" &
# 3 A double fork in a session of its own.
(setsid sh -c "sleep ${n}3 &" &)
# 4 The same without environment and descriptors, in another directory.
(cd / && env -i PATH="$PATH" setsid sh -c "sleep ${n}4 &" </dev/null >/dev/null 2>&1 &)
# 5 Ignores the signals that ask.
(trap '' TERM HUP INT && exec sleep "${n}5") &
# 6 Starts another, in a session of its own, when it is asked.
sh -c "trap 'setsid sleep ${n}6 & exit' TERM HUP INT; sleep ${n}6 & wait" &
exec sleep "${n}0"
