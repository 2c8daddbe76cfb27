/** What a query is made of and run with: the parts that all requests share, and what each brings. */
import type { Logger } from './json-log.ts'
import type { AllowList } from './analyst/allow-list.ts'
import type { GuardAnalyst } from './analyst/guard-analyst.ts'
import type { Answer } from './http/answer.ts'
import type { Definitions } from './engine/definitions.ts'
import type { Engine, SessionState } from './engine/engine.ts'
import type { FailedWrites } from './engine/failed-writes.ts'
import type { SessionPool } from './engine/session-pool.ts'
import type { ResultPipe, Spool } from './engine/body-spool.ts'
import type { TokenFlusher } from './insert/flush-tokens.ts'
import type { ProcessList } from './engine/process-list.ts'
import type { QueryError } from './http/query-errors.ts'
import type { QueryRecord } from './engine/query-record.ts'
import type { LoginDigests, User } from './http/authenticate.ts'
import type { QueryRequest } from './http/parse-request.ts'
import type { KillQuery, ProgressSampler, RunningQueries, Stops } from './engine/running-queries.ts'
import type { EndedQueries } from './restart.ts'
import type { QueryLog } from './engine/server-database.ts'

/** What the steps of a request share. */
export interface ServerParts {
  storage: Storage
  queries: Queries
  gate: Gate
}

/** The engine, and the way of rows into and out of it. */
export interface Storage {
  engine: Engine
  pools: { insert: SessionPool, holds: SessionPool, owner: SessionPool, analyst: SessionPool, guard: SessionPool }
  spool: Spool
  /** Pipes that no query uses; there are as many as sessions that may run. */
  pipes: ResultPipe[]
  tokens: TokenFlusher
  failedWrites: FailedWrites
  definitions: Definitions
}

/** What is known of queries that run or have run, and what ends them. */
export interface Queries {
  running: RunningQueries
  killQuery: KillQuery
  processes: ProcessList
  queryLog: QueryLog
  progress: ProgressSampler
  endedQueries: EndedQueries
  /** Restarts the process, as nothing else ends this query. */
  restart: (stuck: QueryRecord) => void
}

/** Who may ask, and for what. */
export interface Gate {
  logger: Logger
  logins: LoginDigests
  /** In which analysts are who name none. */
  database: string
  allowList: AllowList
  guardAnalyst: GuardAnalyst
  /** How long a client may take nothing of its answer. */
  sendTimeoutSeconds: number
  displayName: string
  /** Why no query is taken any more. */
  closing: QueryError | undefined
}

/** One query on its way: who asks, for what, and where the answer goes. */
export interface Query {
  user: User
  request: QueryRequest
  state: SessionState
  answer: Answer
  stops: Stops
  /** Whether it only reads, so that nobody need wait for the engine once it was ended. */
  isRead: boolean
  /** What the query log will tell; filled in on the way. */
  record: QueryRecord
}
