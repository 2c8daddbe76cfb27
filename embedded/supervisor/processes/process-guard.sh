# Ends a process when the process that guards it is gone. Arguments: pid, signal, tenths of a second until the
# whole group of the process is killed.
#
# Waits for a line or for the end of standard input. A line means "no longer needed". The end of input means that the
# guarding process died, since the kernel closes the pipe of a dead process.

is_running () {
  kill -0 "$1" 2>/dev/null || return 1
  # A container without an init collects no zombies; they count as ended.
  case "$(cat "/proc/$1/stat" 2>/dev/null)" in *') Z '*) return 1 ;; esac
}

if read -r line; then exit 0; fi

kill -s "$2" "$1" 2>/dev/null
tries=0
while [ "$tries" -lt "$3" ] && is_running "$1"; do
  sleep 0.1
  tries=$((tries + 1))
done
kill -s KILL -- "-$1" 2>/dev/null
exit 0
