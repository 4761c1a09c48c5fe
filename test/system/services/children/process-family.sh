# sh process-family.sh <token>: four children with forty children each, as fast as possible
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
