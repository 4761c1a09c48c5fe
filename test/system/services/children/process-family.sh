# sh brood.sh <token>: four that each have forty children, as fast as they can
for one in 1 2 3 4; do
  (
    i=0
    while [ $i -lt 40 ]; do
      sleep "100001.$1" &
      i=$((i + 1))
    done
    wait
  ) &
done
wait
