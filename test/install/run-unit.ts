/**
 * Runs the service of a unit file where systemd is not PID 1: with its user, environment, limits and rights, and with
 * the file system that it would see. Not done is what would take a filter in the kernel, or a manager (`NOT_DONE`).
 */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { openSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { readEnvironmentFile } from '../../cli/commands/read-environment-file.ts'

/** Lines of a unit that only systemd itself puts into force. */
export const NOT_DONE = ['SystemCallFilter', 'RestrictAddressFamilies', 'RestrictNamespaces', 'PrivateDevices', 'Restart']

/** A service that runs. */
export interface RunningService {
  pid: number
  /** Whether it has not ended by itself. */
  isRunning: () => boolean
  /** SIGTERM to its first process alone, as `KillMode=mixed` does; resolves with the exit code and how long it took. */
  stop: () => Promise<{ code: number | null, seconds: number }>
}

const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin'

/** The values of each line of a unit, in order. */
export function readUnit (file: string): Map<string, string[]> {
  const values = new Map<string, string[]>()
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    const [, name, value] = /^(\w+)=(.*)$/.exec(line) ?? []
    if (name !== undefined) values.set(name, [...values.get(name) ?? [], value!])
  }
  return values
}

/** Starts `ExecStart`, whose output goes to the journal file. Needs root, in a mount namespace of its own. */
export function startUnit (file: string, journal: string): RunningService {
  const unit = readUnit(file)
  const output = openSync(journal, 'a')
  const child = spawnInUnit(unit, one(unit, 'ExecStart'), output)
  const ended = once(child, 'exit')
  const seconds = Number(one(unit, 'TimeoutStopSec'))
  return {
    pid: child.pid!,
    isRunning: () => child.exitCode === null && child.signalCode === null,
    async stop () {
      const startedAt = performance.now()
      child.kill('SIGTERM')
      const killer = setTimeout(() => child.kill('SIGKILL'), seconds * 1000)
      const [code] = await ended as [number | null]
      clearTimeout(killer)
      return { code, seconds: (performance.now() - startedAt) / 1000 }
    }
  }
}

/** Runs a shell command as the service would; answers with its exit code. */
export async function tryInUnit (file: string, command: string): Promise<number | null> {
  const [code] = await once(spawnInUnit(readUnit(file), `/bin/sh -c '${command}'`, 'ignore'), 'exit') as [number | null]
  return code
}

function spawnInUnit (unit: Map<string, string[]>, command: string, output: number | 'ignore'): ChildProcess {
  const user = one(unit, 'User')
  const state = makeOwnFolder(`/var/lib/${one(unit, 'StateDirectory')}`, one(unit, 'StateDirectoryMode'), user)
  const cache = makeOwnFolder(`/var/cache/${one(unit, 'CacheDirectory')}`, '755', user)
  const extra = (unit.get('ReadWritePaths') ?? []).flatMap((line) => line.split(' ')).map((each) => each.replace(/^-/, ''))
  const isHomeHidden = one(unit, 'ProtectHome') === 'yes'
  const script = `set -e
    awk '{print $5}' /proc/self/mountinfo | grep -vE '^/(proc|sys|dev)(/|$)' | while read -r each; do mount -o remount,bind,ro "$each" 2>/dev/null || true; done
    for each in ${[state, cache, ...extra].join(' ')}; do mount --bind "$each" "$each"; mount -o remount,bind,rw "$each"; done
    for each in /tmp /var/tmp; do mount -t tmpfs -o mode=1777 none "$each"; done
    ${isHomeHidden ? 'for each in /home /root /run/user; do [ ! -d "$each" ] || mount -t tmpfs -o ro,mode=000 none "$each"; done' : ''}
    for each in /proc/sys /sys /sys/fs/cgroup; do mount --bind "$each" "$each"; mount -o remount,bind,ro "$each"; done
    mount -t proc -o hidepid=invisible none /proc
    umask ${one(unit, 'UMask')}
    cd ${one(unit, 'WorkingDirectory')}
    # A container may have a lower limit.
    ulimit -n ${one(unit, 'LimitNOFILE')} 2>/dev/null || ulimit -n "$(ulimit -Hn)"
    exec setpriv --reuid=${user} --regid=${one(unit, 'Group')} --init-groups \\
      --no-new-privs --inh-caps=-all --bounding-set=-all ${command}`
  const settings = one(unit, 'EnvironmentFile').replace(/^-/, '')
  const environment = one(unit, 'Environment').split(' ').map((each) => each.split('=') as [string, string])
  return spawn('unshare', ['--mount', '--propagation', 'slave', 'bash', '-c', script], {
    env: { PATH, USER: user, LOGNAME: user, ...Object.fromEntries(environment), ...readEnvironmentFile(readFileSync(settings, 'utf8')).values },
    stdio: ['ignore', output, output]
  })
}

function makeOwnFolder (folder: string, mode: string, user: string): string {
  execFileSync('install', ['--directory', `--owner=${user}`, `--group=${user}`, `--mode=${mode}`, path.resolve(folder)])
  return folder
}

function one (unit: Map<string, string[]>, name: string): string {
  const [value, ...more] = unit.get(name) ?? []
  if (value === undefined || more.length > 0) throw new Error(`the unit has ${more.length === 0 ? 'no' : 'more than one'} ${name}`)
  return value
}
