#!/bin/sh
# For every TERM, another daemon; and no end in it.
#   hydra.sh <token>
trap 'setsid "$0" "$1" & setsid sleep "100001.$1" &' TERM
echo "another"
while :; do sleep "1000.$1"; done
