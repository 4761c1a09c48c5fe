/** What to do where no cgroup may be made, or where it has no controllers to hand out. */
export const DELEGATION_HINT =
  "Start it in a delegated subtree: systemd-run --user --scope -p Delegate=yes -- holdfast gateway run; in a container, mount /sys/fs/cgroup writable (docker run --cgroupns=private with a delegated cgroup)";
