"""Shell scripts for images without Python: what the guest does elsewhere, with what a shell has.

They run in dash, bash and BusyBox. No value ever becomes part of their text: paths, names and
arguments are positional parameters. `TOOLS` are given by their absolute paths, because a command's
own environment may have another ``PATH``. Those that answer end their answer with a NUL: the engine tells
of a command's end up to two seconds late, when an earlier one has left a child that holds its pipes.
"""

from __future__ import annotations

__all__ = ["KEEP", "KILL", "MARK", "PROBE", "RUN", "SIGNAL", "SMALL", "TOOLS"]

TOOLS = ("cat", "chmod", "find", "grep", "mkdir", "mv", "readlink", "rm", "sleep", "stat", "touch")

MARK = "SANDBOXIO_COMMAND"
"""Environment variable that tells what a command started, wherever it went: only ``env -i`` hides
from it, together with ``setsid`` and a double fork."""

PROBE = """
for tool; do
  path=$(command -v "$tool") && printf '%s %s\\n' "$tool" "$path"
done
printf '\\0'
"""

# $1: cat; $2: a file.
SMALL = """
"$1" -- "$2"
printf '\\0'
"""

# $1: a signal; $2: the leader of a process group.
SIGNAL = """
kill "-$1" "-$2"
printf '\\0'
"""

# $1: lifetime; $2: "1" if the end of stdin ends it, too. Runs as a user of its own, whom commands
# can neither kill nor stop, as nobody in the container has a capability.
KEEP = """
sleep "$1" &
timer=$!
if [ "$2" = 1 ]; then
  exec 3<&0
  (cat <&3 >/dev/null; kill "$timer") &
fi
wait "$timer"
"""

# $1: mark; $2: pid of the session's leader or 0; $3: grep; other: pids to spare. Prints whether
# all is gone. It first finds all and then kills, as orphans forget their parents, and asks again
# until nothing is left, as what it kills may be forking.
KILL = """
mark=$1 leader=$2 grep=$3
shift 3
spare=" $$ $* "
round=0
while [ "$round" -lt 200 ]; do
  round=$((round + 1))
  marked=" $(cd /proc && "$grep" -l -- "$mark" [0-9]*/environ 2>/dev/null |
    while read -r file; do printf '%s ' "${file%%/*}"; done)"
  tree=' '
  before=
  while [ "$tree" != "$before" ]; do
    before=$tree
    for folder in /proc/[0-9]*; do
      pid=${folder#/proc/}
      case $spare$tree in *" $pid "*) continue ;; esac
      line=
      while read -r part; do line="$line $part"; done 2>/dev/null < "$folder/stat" || :
      set -- ${line##*) }
      case ${1:-Z} in Z | X) continue ;; esac
      case $marked$tree in *" $pid "* | *" $2 "*) tree="$tree$pid " ;; *)
        [ "$leader" != 0 ] && [ "$4" = "$leader" ] && tree="$tree$pid "
      esac
    done
  done
  [ "$tree" = ' ' ] && { printf 'gone\\0'; exit 0; }
  for pid in $tree; do kill -KILL "$pid"; done 2>/dev/null
done
printf 'left:%s\\0' "$tree"
"""

# $1: mark; $2: seconds; $3: sleep; $4: grep; $5: the script KILL; $6: directory; $7: "1" if HOME is
# to be empty, which engines take for missing and fill in; other: the command. It says on stderr who it is before the command starts, and on both streams when it has ended:
# what comes behind that is from children in the background. The separators around the mark are in no
# process's arguments or environment, so that a command that prints these ends nothing. A shell that may
# not fork ends, and its first trap says so. That looks whose it is: bash runs it also in what it has just
# forked, when a signal ends that. The other traps, which keep this shell alive when the command signals its
# group, come after the fork of what must die of the same signals.
RUN = """
mark=$1 limit=$2 sleep=$3 grep=$4 script=$5
cd "$6" 2>/dev/null || {
  errno=2
  [ -e "$6" ] && errno=20
  [ -d "$6" ] && errno=13
  printf '\\036%s\\036 errno %s\\n' "$mark" "$errno" >&2
  exit 0
}
[ "$7" = 1 ] && HOME=
shift 7
exec 3>&2 2>/dev/null
trap '
  read -r line < /proc/self/stat
  if [ "${line%% *}" = "$$" ]; then
    kill -TERM "$watch"
    printf "\\036%s\\036 unforked\\n" "$mark" >&3
  fi
' EXIT
(
  trap 'kill "$timer"; exit 0' TERM
  "$sleep" "$limit" &
  timer=$!
  wait "$timer" || exit 0
  read -r line < /proc/self/stat
  /bin/sh -c "$script" kill "$mark" "$$" "$grep" "$$" "${line%% *}"
  exit 99
) </dev/null >/dev/null 3>&- &
watch=$!
trap : HUP INT QUIT ALRM TERM USR1 USR2
(printf '\\036%s\\036 %s\\n' "$mark" "$$" >&3; exec "$@" 2>&3 3>&-)
code=$?
trap - EXIT
kill -TERM "$watch"
wait "$watch"
late=$?
printf '\\036%s\\036' "$mark"
printf '\\036%s\\036 %s %s\\n' "$mark" "$code" "$late" >&3
"""
