/** A machine on which nothing is installed but its distribution, Node and npm, as an image in a store of its own. */
import { execFileSync, spawn } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { findNatsServer } from '../../embedded/nats/find-nats-server.ts'
import { findMachineNode } from '../package/installed-package.ts'

/** The user of the machine, who has no rights. */
export const USER = 1000
/** As Node and npm of Debian do, so do those of the machine come with these certificates. */
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt'
const PROGRAMS = ['podman', 'runc', 'debootstrap']
/** Needs no daemon, no network of its own, and no module or right that a container may lack itself. */
const CONFIGURATION = `[containers]
default_ulimits = []
netns = "host"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
`
const SCRIPTS = '/usr/share/debootstrap/scripts'

export interface BareMachineOptions {
  /** `bookworm`, `trixie`, or a release of Ubuntu. */
  suite: string
  /** Where its packages are. Default: where this machine has its own from. */
  mirror: string | undefined
  /** Node and npm of the machine. Default: this machine's. */
  node: string | undefined
  /** Keeps the images. */
  folder: string
}

export interface BareMachine {
  /** What starts `sh -c command` in a folder of this machine, which is the user's. `MILLRACE_*` is passed on. */
  commandFor (folder: string, command: string): [string, ...string[]]
  /** Runs it to its end, and shows what it prints. */
  run (folder: string, command: string): Promise<{ code: number | null, output: string }>
}

/** @throws when this machine cannot make one; the message says what it needs. */
export async function makeBareMachine ({ suite, mirror, node, folder }: BareMachineOptions): Promise<BareMachine> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) throw new Error('a bare machine is made by root, on Linux')
  const lacks = PROGRAMS.filter((name) => !['/usr/sbin', '/usr/bin', '/sbin', '/bin'].some((bin) => existsSync(path.join(bin, name))))
  if (lacks.length > 0) throw new Error(`a bare machine is made by ${lacks.join(', ')}: apt-get install --no-install-recommends ${lacks.join(' ')}`)
  writeFileSync(path.join(folder, 'containers.conf'), CONFIGURATION)
  const podman = [
    `CONTAINERS_CONF=${path.join(folder, 'containers.conf')}`, 'podman',
    '--root', path.join(folder, 'images'), '--runroot', path.join(folder, 'run'), '--storage-driver', 'vfs'
  ]
  const image = `localhost/millrace-fresh:${suite}`
  const binary = node ?? await findMachineNode()
  const isMade = execFileSync('env', [...podman, 'images', '--quiet', image], { encoding: 'utf8' }).trim() !== ''
  if (!isMade) makeImage({ suite, mirror: mirror ?? findMirror(), folder, load: [...podman, 'import', '-', image] })
  const npm = path.resolve(realpathSync(path.join(path.dirname(binary), 'npm')), '..', '..')
  const mounts = [`${realpathSync(binary)}:/usr/bin/node`, `${npm}:/usr/lib/node_modules/npm`, `${CERTIFICATES}:${CERTIFICATES}`]
  // Elsewhere than on Debian, the README asks for one on PATH.
  if (!['bookworm', 'trixie'].includes(suite)) mounts.push(`${await findNatsServer({ env: process.env, dataDir: folder })}:/usr/local/bin/nats-server`)
  const given = { NODE_EXTRA_CA_CERTS: CERTIFICATES, SSL_CERT_FILE: CERTIFICATES, npm_config_registry: execFileSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8' }).trim() }
  const options = [
    'run', '--rm', '--user', 'dev', '--env', 'MILLRACE_*',
    ...Object.entries(given).flatMap(([name, value]) => ['--env', `${name}=${value}`]),
    ...mounts.flatMap((mount) => ['--volume', `${mount}:ro`])
  ]

  function commandFor (shared: string, command: string): [string, ...string[]] {
    const place = `/home/dev/${path.basename(shared)}`
    return ['env', ...podman, ...options, '--volume', `${shared}:${place}`, '--workdir', place, image, 'sh', '-c', command]
  }

  async function run (shared: string, command: string): Promise<{ code: number | null, output: string }> {
    const [program, ...args] = commandFor(shared, `{ ${command}; } 2>&1`)
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    child.stdout.pipe(process.stdout, { end: false })
    const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
    return { output: await text(child.stdout), code: await ended }
  }

  return { commandFor, run }
}

function makeImage (
  { suite, mirror, folder, load }: { suite: string, mirror: string, folder: string, load: string[] }
): void {
  const root = mkdtempSync(path.join(folder, `${suite}-`))
  chmodSync(root, 0o755)
  try {
    // Releases of one distribution differ in nothing that debootstrap has to know.
    const script = existsSync(path.join(SCRIPTS, suite)) ? [] : [path.join(SCRIPTS, 'jammy')]
    execFileSync('debootstrap', ['--variant=minbase', suite, root, mirror, ...script], { stdio: ['ignore', 'ignore', 'inherit'] })
    execFileSync('chroot', [root, 'useradd', '--create-home', '--uid', String(USER), 'dev'])
    for (const name of ['npm', 'npx']) symlinkSync(`../lib/node_modules/npm/bin/${name}-cli.js`, path.join(root, 'usr/bin', name))
    // How this machine reaches its mirror, such as through a proxy.
    const apt = execFileSync('apt-config', ['dump', 'Acquire'], { encoding: 'utf8' }).match(/^Acquire::(Check-Valid-Until|https?::Proxy) .*$/gm) ?? []
    writeFileSync(path.join(root, 'etc/apt/apt.conf.d/99as-this-machine'), `${apt.join('\n')}\n`)
    execFileSync('sh', ['-c', 'tar -C "$0" -c . | env "$@"', root, ...load], { stdio: ['ignore', 'ignore', 'inherit'] })
  } finally {
    rmSync(root, { recursive: true, force: true })
  }
}

/** The first source of this machine with Debian itself, not its updates. */
function findMirror (): string {
  const uris = execFileSync('apt-get', ['indextargets', '--format', '$(REPO_URI) $(ORIGIN) $(SUITE)'], { encoding: 'utf8' })
  const [, mirror] = /^(\S+) Debian (?!.*-)/m.exec(uris) ?? []
  if (mirror === undefined) throw new Error('apt of this machine has no source of Debian: give --mirror')
  return mirror
}
