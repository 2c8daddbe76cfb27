import { type Logger } from 'pino'
import { type LoginDigests } from './request/authenticate.ts'
import { type Engine } from './engine/engine.ts'
import { type KillQuery } from './watch/kill-query.ts'
import { type AllowList } from './analyst/allow-list.ts'
import { type GuardAnalyst } from './analyst/guard-analyst.ts'
import { type NamedSessions } from './engine/named-sessions.ts'
import { type ResultPipe } from './statement/result-pipe.ts'
import { type QueryLog } from './watch/query-log.ts'
import { type RunningQueries } from './watch/running-queries.ts'
import { type ProgressSampler } from './watch/sample-progress.ts'
import { type SessionPool } from './engine/session-pool.ts'
import { type Spool } from './engine/spool.ts'
import { type TokenFlusher } from './insert/flush-tokens.ts'

/** What the steps of a request share. */
export interface ServerParts {
  logger: Logger
  engine: Engine
  logins: LoginDigests
  spool: Spool
  tokens: TokenFlusher
  pools: { insert: SessionPool, product: SessionPool, analyst: SessionPool, guard: SessionPool }
  named: NamedSessions
  /** Pipes that no query uses; there are as many as sessions that may run. */
  pipes: ResultPipe[]
  killQuery: KillQuery
  running: RunningQueries
  queryLog: QueryLog
  progress: ProgressSampler
  allowList: AllowList
  guardAnalyst: GuardAnalyst
  displayName: string
  closing: boolean
}
