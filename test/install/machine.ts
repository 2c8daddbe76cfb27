/**
 * Machines that are network namespaces on one bridge, each with its own /etc, /var and /usr/sbin over those of this
 * machine: what listens on 127.0.0.1 of one is out of reach of the others. Needs root, in namespaces of its own.
 */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { serviceScript } from './service-script.ts'

export interface Machine {
  address: string
  /** Runs a line of bash there, in the folder of the package and with what earlier lines exported. */
  run: (line: string) => Promise<{ code: number | null, printed: string }>
  /** Starts a program that goes on; its output goes to a file. */
  start: (name: string, command: readonly string[], env: NodeJS.ProcessEnv) => ChildProcess
  /** Starts the service of a unit, such as `millrace@api`, with the user, folders and settings that the unit names. */
  startUnit: (name: string) => ChildProcess
  /** Reads and writes files as the machine sees them. */
  file: (name: string) => string
  write: (name: string, text: string) => void
  /** Everything on it ends at once, as if its plug was pulled. */
  pullPlug: () => Promise<void>
  log: (name: string) => string
}

export interface MachineOptions {
  address: string
  /** Of logs and of what the machine writes: on no overlay. */
  folder: string
  /** Folder of programs that stand for those that are not to be run, first in PATH. */
  shims: string
  cwd: string
}

const OVERLAYS = ['/etc', '/var', '/usr/sbin']
const BRIDGE = 'millrace'
/** Where the units have the package. */
const INSTALLED = '/opt/millrace/node_modules'
const ENTRY = path.join(import.meta.dirname, '..', '..', 'cli', 'main.ts')
const PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** Makes the bridge, on which this process has an address, too. */
export function openNetwork (address: string): void {
  sh(`ip link set lo up; ip link add ${BRIDGE} type bridge; ip addr add ${address}/24 dev ${BRIDGE}; ip link set ${BRIDGE} up`)
}

export async function startMachine ({ address, folder, shims, cwd }: MachineOptions): Promise<Machine> {
  const name = `m${address.split('.').at(-1)}`
  const own = path.join(folder, name)
  for (const each of OVERLAYS) for (const part of ['upper', 'work']) mkdirSync(path.join(own, each, part), { recursive: true })
  const mounts = OVERLAYS.map((each) =>
    `mount -t overlay -o lowerdir=${each},upperdir=${path.join(own, each, 'upper')},workdir=${path.join(own, each, 'work')} overlay ${each}`)
  const holder = spawn('unshare', ['--net', '--mount', '--propagation', 'private', 'bash', '-ec', `${mounts.join('\n')}\necho ready; exec sleep infinity`], {
    stdio: ['ignore', 'pipe', 'inherit']
  })
  await once(holder.stdout, 'data')
  sh(`ip link add ${name} type veth peer name eth0 netns ${holder.pid}; ip link set ${name} master ${BRIDGE} up`)
  const inside = ['--target', String(holder.pid), '--net', '--mount', `--wdns=${cwd}`, '--']
  sh(`nsenter --target ${holder.pid} --net sh -c 'ip link set lo up; ip addr add ${address}/24 dev eth0; ip link set eth0 up'`)

  const running = new Set<ChildProcess>()
  const logOf = (what: string): string => path.join(own, `${what}.log`)
  const file = (what: string): string => `/proc/${holder.pid}/root${what}`
  const exported: string[] = []

  function start (what: string, command: readonly string[], env: NodeJS.ProcessEnv): ChildProcess {
    const output = openSync(logOf(what), 'a')
    // A group of its own, so that what it has started ends with it.
    const child = spawn('nsenter', [...inside, ...command], { env: { PATH, ...env }, stdio: ['ignore', output, output], detached: true })
    running.add(child)
    child.once('exit', () => running.delete(child))
    return child
  }

  return {
    address,
    file,
    start,
    async run (line) {
      if (line.startsWith('export ')) exported.push(line)
      const script = [`PATH=${shims}:$PATH`, ...exported, line].join('\n')
      const child = spawn('nsenter', [...inside, 'bash', '-c', script], { env: { PATH }, stdio: ['ignore', 'pipe', 'pipe'] })
      let printed = ''
      for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text: string) => { printed += text })
      const [code] = await once(child, 'close') as [number | null]
      return { code, printed }
    },
    startUnit (what) {
      const [name, instance] = what.split('@')
      const unit = readFileSync(file(`/etc/systemd/system/${name}${instance === undefined ? '' : '@'}.service`), 'utf8')
      const ofClone = unit.replaceAll(`${INSTALLED}/.bin/node`, process.execPath).replaceAll(`${INSTALLED}/millrace/dist/cli/main.js`, ENTRY)
      return start(what, ['bash', '-c', serviceScript(ofClone, instance)], {})
    },
    write (what, text) { writeFileSync(file(what), text) },
    async pullPlug () {
      const ended = [...running].map(async (child) => {
        const exit = once(child, 'exit')
        process.kill(-child.pid!, 'SIGKILL')
        await exit
      })
      await Promise.all(ended)
    },
    log: (what) => readFileSync(logOf(what), 'utf8')
  }
}

function sh (script: string): void {
  execFileSync('bash', ['-ec', script], { stdio: ['ignore', 'ignore', 'inherit'] })
}
