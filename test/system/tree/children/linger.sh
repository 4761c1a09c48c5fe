#!/bin/sh
# A command whose children would linger: one in the background, one in a session of its own.
sleep "100001.$1" &
setsid sleep "100003.$1" &
echo up
read -r code && exit "$code"
