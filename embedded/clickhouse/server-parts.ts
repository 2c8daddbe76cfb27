/** What a query is made of and run with: the parts that all requests share, and what each brings. */
import type { Logger } from './json-log.ts'
import type { AllowList } from './analyst/allow-list.ts'
import type { GuardAnalyst } from './analyst/guard-analyst.ts'
import type { Answer } from './answer.ts'
import type { Definitions } from './engine/definitions.ts'
import type { Engine, SessionState } from './engine/engine.ts'
import type { FailedWrites } from './engine/failed-writes.ts'
import type { SessionPool } from './engine/session-pool.ts'
import type { Spool } from './engine/body-spool.ts'
import type { TokenFlusher } from './insert/flush-tokens.ts'
import type { ProcessList } from './process-list.ts'
import type { QueryError } from './query-errors.ts'
import type { QueryRecord } from './query-record.ts'
import type { LoginDigests, User } from './request/authenticate.ts'
import type { QueryRequest } from './request/parse-request.ts'
import type { KillQuery, ProgressSampler, RunningQueries, Stops } from './running-queries.ts'
import type { EndedQueries } from './restart.ts'
import type { QueryLog } from './server-database.ts'
import type { ResultPipe } from './statement/run-select.ts'

/** What the steps of a request share. */
export interface ServerParts {
  /** The engine's folder. */
  engineDir: string
  logger: Logger
  engine: Engine
  logins: LoginDigests
  /** In which analysts are who name none. */
  database: string
  spool: Spool
  tokens: TokenFlusher
  failedWrites: FailedWrites
  definitions: Definitions
  pools: { insert: SessionPool, owner: SessionPool, analyst: SessionPool, guard: SessionPool }
  /** Pipes that no query uses; there are as many as sessions that may run. */
  pipes: ResultPipe[]
  killQuery: KillQuery
  running: RunningQueries
  processes: ProcessList
  queryLog: QueryLog
  progress: ProgressSampler
  /** How long a client may take nothing of its answer. */
  sendTimeoutSeconds: number
  allowList: AllowList
  guardAnalyst: GuardAnalyst
  displayName: string
  /** Why no query is taken any more. */
  closing: QueryError | undefined
  endedQueries: EndedQueries
  /** Restarts the process, as nothing else ends this query. */
  restart: (stuck: QueryRecord) => void
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
