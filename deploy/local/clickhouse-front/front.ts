import { type Logger } from 'pino'
import { type Passwords } from './authenticate.ts'
import { type Engine } from './engine.ts'
import { type KillQuery } from './kill-query.ts'
import { type GuardAnalyst } from './guard-analyst.ts'
import { type NamedSessions } from './named-sessions.ts'
import { type ResultPipe } from './result-pipe.ts'
import { type QueryLog } from './query-log.ts'
import { type RunningQueries } from './running-queries.ts'
import { type ProgressSampler } from './sample-progress.ts'
import { type SessionPool } from './session-pool.ts'
import { type Spool } from './spool.ts'

/** What the steps of a request share. */
export interface Front {
  logger: Logger
  engine: Engine
  passwords: Passwords
  spool: Spool
  pools: { insert: SessionPool, product: SessionPool, analyst: SessionPool }
  named: NamedSessions
  /** Pipes that no query uses; there are as many as sessions that may run. */
  pipes: ResultPipe[]
  killQuery: KillQuery
  running: RunningQueries
  queryLog: QueryLog
  progress: ProgressSampler
  guardAnalyst: GuardAnalyst
  displayName: string
  closing: boolean
}
