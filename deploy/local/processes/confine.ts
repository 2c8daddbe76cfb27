import { existsSync } from 'node:fs'
import path from 'node:path'

export interface Confinement {
  /** Files and folders the program may read and execute, with all below. */
  read: readonly string[]
  /** Folders in which it may do everything. They must exist. */
  write: readonly string[]
}

export interface Command {
  command: string
  args: readonly string[]
}

const SCRIPT = path.join(import.meta.dirname, 'confine.pl')
const PERL = '/usr/bin/perl'

/** What every program of this kind needs of a Linux: libraries, time zones, chance, and what it may know of itself. */
const SYSTEM = [
  '/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/nix/store', '/gnu/store', '/sys',
  ...['ld.so.cache', 'ld.so.conf', 'localtime', 'timezone', 'nsswitch.conf', 'hosts', 'host.conf', 'resolv.conf', 'passwd', 'group', 'ssl/openssl.cnf', 'alternatives']
    .map((name) => `/etc/${name}`),
  // `/proc/self` of the process that is to be confined; other processes are out of reach.
  ...['self', 'sys', 'meminfo', 'stat', 'cpuinfo', 'uptime', 'loadavg', 'version', 'filesystems', 'vmstat', 'diskstats'].map((name) => `/proc/${name}`),
  '/dev/zero', '/dev/random', '/dev/urandom'
]

/**
 * The command that runs a program confined by the kernel: it can open only what is named, reach no other process, and
 * connect to no TCP port. The process keeps its id. See `confine.pl`, which runs it unconfined where the kernel cannot.
 *
 * @returns undefined where it cannot be tried: not Linux, or no Perl.
 */
export function confineCommand (program: Command, { read, write }: Confinement): Command | undefined {
  if (process.platform !== 'linux' || !existsSync(PERL)) return undefined
  const rules = [...[...SYSTEM, ...read].map((file) => `r:${file}`), ...['/dev/null', ...write].map((file) => `w:${file}`)]
  return { command: PERL, args: [SCRIPT, ...rules, '--', program.command, ...program.args] }
}
