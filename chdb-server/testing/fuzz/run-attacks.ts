import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import path from 'node:path'
import { type HttpAnswer, startTestServer } from '../start-test-server.ts'
import { type Attack, createAttacks, findTargets } from './generate-attacks.ts'

export interface Outcome {
  queries: number
  /** Refused by the guard, or by the reading of the statement or the request before it. */
  refusedByGuard: number
  /** The engine's errors, of its parser for most. */
  refusedByEngine: number
  /** Answered with 200: of an analyst, each is a hole. */
  answered: Attack[]
  /** Answers that held the secret of a file, of the environment or of the query log. */
  secretsSeen: Attack[]
  connections: number
  filesWritten: string[]
}

export interface AttackOptions {
  user: 'analyst' | 'owner'
  queries: number
  seed: number
  /** Leaves the others out. */
  isWanted?: (attack: Attack) => boolean
}

export interface Range {
  /** Runs that many attacks as this user. */
  attack: (options: AttackOptions) => Promise<Outcome>
}

/** What the canaries watch: without the guard these are reached. */
export function hasCanary ({ name }: Attack): boolean {
  return ['file', 'url', 'system.query_log', 'chdb_server.query_log'].includes(name)
}

interface Teardown {
  after: (work: () => unknown) => void
}

/** How many queries are asked at the same time. */
const AT_ONCE = 8

/**
 * A server with canaries: files, a variable of its environment and a row of its query log that hold a secret, a folder
 * in which nothing may appear, and a canary to which nobody may connect.
 */
export async function openRange (t: Teardown): Promise<Range> {
  const secret = `canary-${randomBytes(12).toString('hex')}`
  const server = await startTestServer(t, { env: { CANARY: secret } })
  const file = path.join(server.dataDir, 'secret')
  for (const extension of ['csv', 'tsv', 'txt']) writeFileSync(`${file}.${extension}`, `${secret}\n`)
  const filesBefore = readdirSync(server.dataDir).toSorted()
  await server.ask(`SELECT nope, '${secret}'`)
  await server.ask('SYSTEM FLUSH LOGS')
  let connections = 0
  const canary = createServer((socket) => {
    connections++
    socket.on('error', () => {})
    socket.end(`HTTP/1.1 200 OK\r\ncontent-length: ${secret.length}\r\nconnection: close\r\n\r\n${secret}`)
  }).listen(0, '127.0.0.1')
  canary.unref()
  await once(canary, 'listening')
  t.after(() => canary.close())
  const lines = async (query: string): Promise<string[]> => (await server.ask(query)).text.trim().split('\n')
  const targets = await findTargets(lines, { file, server: `127.0.0.1:${(canary.address() as AddressInfo).port}` })

  return {
    async attack ({ user, queries, seed, isWanted = () => true }) {
      const next = createAttacks(targets, seed)
      const outcome: Outcome = {
        queries: 0,
        refusedByGuard: 0,
        refusedByEngine: 0,
        answered: [],
        secretsSeen: [],
        connections: 0,
        filesWritten: []
      }
      const before = connections
      const limits: Record<string, string> = user === 'analyst' ? {} : { max_execution_time: '2', http_max_tries: '1' }
      const shoot = async (): Promise<void> => {
        while (outcome.queries < queries) {
          const attack = next()
          if (!isWanted(attack)) continue
          outcome.queries++
          const answer = await server.ask(attack.query, { user, params: { ...limits, ...attack.params } })
          count(outcome, attack, answer, secret)
        }
      }
      await Promise.all(Array.from({ length: AT_ONCE }, shoot))
      outcome.connections = connections - before
      outcome.filesWritten = readdirSync(server.dataDir).toSorted().filter((name) => !filesBefore.includes(name))
      const alive = await server.ask('SELECT 1', { user: 'analyst' })
      if (alive.text !== '1\n') throw new Error(`the server does not answer any more: ${alive.text}`)
      return outcome
    }
  }
}

/** The engine's own refusals name its user, `default`. */
const OURS = /^Code: \d+\. DB::Exception: (analyst: |Cannot modify '|INTO OUTFILE is|Syntax error \(Multi-statements|Syntax error: the query is not understood)/

function count (outcome: Outcome, attack: Attack, answer: HttpAnswer, secret: string): void {
  if (answer.bytes.includes(secret)) outcome.secretsSeen.push(attack)
  if (answer.status === 200) outcome.answered.push(attack)
  else if (OURS.test(answer.text)) outcome.refusedByGuard++
  else outcome.refusedByEngine++
}
