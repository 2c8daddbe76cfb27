import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { access, mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { fetchDebianPackage } from '../../embedded/supervisor/fetch-debian-package.ts'
import { freePorts } from '../support/local-ports.ts'
import { waitFor } from '../support/wait-for.ts'

export const PROXIES = ['nginx', 'caddy'] as const
export type ProxyName = typeof PROXIES[number]

export interface Proxy {
  /** Of HTTPS, for `localhost`. */
  port: number
  stop: () => Promise<void>
}

interface StartProxyOptions {
  binary: string
  /** For its files. */
  folder: string
  /** Host and port of ingest. */
  origin: string
}

const ROOT = path.join(import.meta.dirname, '..', '..')
const FOLDER = path.join(ROOT, 'test', 'security', 'certificates')
const IN_PACKAGE = { nginx: 'usr/sbin/nginx', caddy: 'usr/bin/caddy' } as const
/** Releases of Debian whose libraries are those of Debian 12. */
const SUITES = ['bookworm']

/** The certificates of the tests, for `localhost`. */
export const CERTIFICATES = {
  authority: readFileSync(path.join(FOLDER, 'authority.pem')),
  chain: path.join(FOLDER, 'server.pem'),
  key: path.join(FOLDER, 'server-key.pem')
}

/** The program on PATH, else that of the Debian package, unpacked into the folder. */
export async function findProxy (name: ProxyName, folder: string): Promise<string> {
  for (const each of (process.env.PATH ?? '').split(path.delimiter)) {
    const file = path.join(each, name)
    if (await access(file).then(() => true, () => false)) return file
  }
  const binary = path.join(folder, name)
  await fetchDebianPackage({ name, suites: SUITES, files: { [IN_PACKAGE[name]]: binary } })
  return binary
}

/** Starts it with the file of `deploy/proxy/`, of which only addresses, names and certificates are replaced. */
export async function startProxy (name: ProxyName, { binary, folder, origin }: StartProxyOptions): Promise<Proxy> {
  const [port, plainPort] = await freePorts(2) as [number, number]
  const home = path.join(folder, `${name}-home`)
  await mkdir(home, { recursive: true })
  const file = path.join(home, name === 'nginx' ? 'nginx.conf' : 'Caddyfile')
  const render = name === 'nginx' ? renderNginx : renderCaddy
  const args = name === 'nginx'
    ? ['-p', home, '-c', file, '-e', path.join(home, 'error.log'), '-g', 'daemon off;']
    : ['run', '--adapter', 'caddyfile', '--config', file]
  await writeFile(file, await render({ port, plainPort, origin, home }))
  const child = spawn(binary, args, { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, HOME: home } })
  let printed = ''
  child.stderr.on('data', (chunk: Buffer) => { printed += chunk.toString() })
  const exited = once(child, 'close')
  await waitFor(async () => {
    if (child.exitCode !== null) throw new Error(`${name} ended: ${printed}`)
    const answer = await fetch(`http://127.0.0.1:${plainPort}/`, { redirect: 'manual' }).catch(() => undefined)
    return answer?.status === 308
  })
  return {
    port,
    async stop () {
      child.kill('SIGTERM')
      await exited
    }
  }
}

interface Places {
  port: number
  plainPort: number
  origin: string
  home: string
}

async function renderNginx ({ port, plainPort, origin, home }: Places): Promise<string> {
  const site = replaceAll(await readFile(path.join(ROOT, 'deploy', 'proxy', 'nginx.conf'), 'utf8'), {
    'listen 443 ssl': `listen 127.0.0.1:${port} ssl`,
    'listen 80': `listen 127.0.0.1:${plainPort}`,
    'server 127.0.0.1:8000': `server ${origin}`,
    'events.example.com': 'localhost',
    '/etc/ssl/millrace/fullchain.pem': CERTIFICATES.chain,
    '/etc/ssl/millrace/privkey.pem': CERTIFICATES.key
  })
  const folders = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((each) => `${each}_temp_path ${path.join(home, each)};`)
  // A worker of root is another user, who cannot write below a private folder.
  const user = process.getuid?.() === 0 ? 'user root;\n' : ''
  return `${user}worker_processes 1;\npid ${path.join(home, 'pid')};\nevents {}\nhttp {\naccess_log off;\n${folders.join('\n')}\n${site}}\n`
}

async function renderCaddy ({ port, plainPort, origin }: Places): Promise<string> {
  const site = replaceAll(await readFile(path.join(ROOT, 'deploy', 'proxy', 'Caddyfile'), 'utf8'), {
    'events.example.com {': 'localhost {',
    '# tls /etc/ssl/millrace/fullchain.pem /etc/ssl/millrace/privkey.pem': `tls ${CERTIFICATES.chain} ${CERTIFICATES.key}`,
    'reverse_proxy 127.0.0.1:8000': `reverse_proxy ${origin}`
  })
  return `{\n\thttp_port ${plainPort}\n\thttps_port ${port}\n\tadmin off\n}\n${site}`
}

function replaceAll (text: string, replacements: Record<string, string>): string {
  return Object.entries(replacements).reduce((done, [from, to]) => {
    if (!done.includes(from)) throw new Error(`the file has no ${from}`)
    return done.replaceAll(from, to)
  }, text)
}
