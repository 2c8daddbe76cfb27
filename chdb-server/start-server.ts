/** The life of the server: from the parts that its requests share, through listening, to its orderly end. */
import { once } from 'node:events'
import { hostname } from 'node:os'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { HeldServer } from './http/held-server.ts'
import { QueryError } from './http/query-errors.ts'
import type { QueryRecord } from './engine/query-record.ts'
import type { Logger } from './json-log.ts'
import type { Options } from './options.ts'
import { loadAllowList } from './analyst/allow-list.ts'
import { openEngine } from './engine/engine.ts'
import { Definitions, repairDefinitions } from './engine/definitions.ts'
import { dropUnfinishedParts, listDetached } from './engine/drop-unfinished-parts.ts'
import { endWithoutClosing, FailedWrites } from './engine/failed-writes.ts'
import { forgetLostParts } from './insert/forget-lost-parts.ts'
import { prepareSystemDatabase, QueryLog } from './engine/server-database.ts'
import { createGuardAnalyst } from './analyst/guard-analyst.ts'
import { openProcessList } from './engine/process-list.ts'
import { createKillQuery, createProgressSampler, RunningQueries } from './engine/running-queries.ts'
import { ANALYST_PROFILE, GUARD_PROFILE, POOL_SIZES, OWNER_PROFILE } from './engine/profiles.ts'
import { EndedQueries, replaceProcess } from './restart.ts'
import type { ServerParts } from './server-parts.ts'
import { createAnswerRequest } from './http/server.ts'
import { SessionPool } from './engine/session-pool.ts'
import { ResultPipe, Spool } from './engine/body-spool.ts'
import { TokenFlusher } from './insert/flush-tokens.ts'
import {
  forgetFailedWrite, readFailedWrite, rememberFailedWrite, removePartsWithoutToken
} from './insert/remove-unanswered-parts.ts'

export interface ServerOptions extends Omit<Options, 'logLevel'> {
  logger: Logger
  http: HeldServer
}

/** The process promises to be gone within three seconds; the engine needs some of them to close its tables. */
const INSERTS_MAY_TAKE_MS = 2000
const QUERIES_MAY_TAKE_MS = 300

/** Likewise before a restart, which is to be over five seconds after the limit of the query that forces it. */
const INSERTS_MAY_TAKE_BEFORE_RESTART_MS = 1500

/**
 * Starts the server in this process: opens the engine and the spool, makes the pools of sessions, repairs what a crash
 * left, and listens. A process can have only one, because the engine binds its folder for good.
 *
 * @throws {StartError} when another process holds the folder, or the port is in use.
 */
export async function startServer (options: ServerOptions) {
  const { http, logger } = options
  const dataDir = path.resolve(options.dataDir)
  const engineDir = path.join(dataDir, 'clickhouse')
  const since = readFailedWrite(engineDir)
  repairDefinitions(engineDir, logger)
  if (since !== null) removePartsWithoutToken(engineDir, since, logger)
  const before = listDetached(engineDir)
  const engine = await openEngine(engineDir, {
    backupsDir: path.join(dataDir, 'clickhouse-backups'), memoryBytes: options.memoryBytes
  })
  const spool = new Spool(dataDir)
  const pools = {
    insert: new SessionPool(engine, { name: 'inserts', ...POOL_SIZES.insert, settings: OWNER_PROFILE }),
    holds: new SessionPool(engine, { name: 'holding inserts', ...POOL_SIZES.holds, settings: OWNER_PROFILE }),
    owner: new SessionPool(engine, { name: 'the owner', ...POOL_SIZES.owner, settings: OWNER_PROFILE }),
    analyst: new SessionPool(engine, { name: 'user analyst', ...POOL_SIZES.analyst, settings: ANALYST_PROFILE }),
    guard: new SessionPool(engine, { name: 'the guard of analysts', ...POOL_SIZES.guard, settings: GUARD_PROFILE })
  }
  const allowList = loadAllowList()
  const control = await engine.openSession()
  const failedWrites = new FailedWrites(await engine.openSession(), (why) => {
    if ('since' in why) rememberFailedWrite(engineDir, why.since)
    endWithoutClosing(logger, why)
  })
  await prepareSystemDatabase(control, options.database)
  await forgetLostParts(control, { scratchPath: path.join(engineDir, 'server-tokens.tmp'), logger })
  const running = new RunningQueries()
  const [stdinPipe = '', ...pipes] = spool.makePipes(
    1 + POOL_SIZES.owner.size + POOL_SIZES.analyst.size + POOL_SIZES.analyst.maxOverdue)
  const parts: ServerParts = {
    storage: {
      engine,
      pools,
      spool,
      pipes: pipes.map((path) => new ResultPipe(path)),
      tokens: await TokenFlusher.open(engineDir, logger),
      failedWrites,
      definitions: new Definitions(engineDir)
    },
    queries: {
      running,
      killQuery: createKillQuery(control),
      processes: await openProcessList(control, running),
      queryLog: new QueryLog(await engine.openSession(), spool, logger),
      progress: createProgressSampler(await engine.openSession(), logger),
      endedQueries: new EndedQueries(),
      restart: (stuck) => { void restart(parts, options, { stuck, stdinPipe }) }
    },
    gate: {
      logger,
      logins: options.logins,
      database: options.database,
      allowList,
      guardAnalyst: createGuardAnalyst(pools.guard, engine, allowList),
      sendTimeoutSeconds: options.sendTimeoutSeconds,
      displayName: hostname(),
      closing: undefined
    }
  }
  await dropUnfinishedParts(control, { before, since, logger })
  await failedWrites.check()
  forgetFailedWrite(engineDir)
  http.release(createAnswerRequest(parts))
  const port = await http.listen(options)
  return { port, close: async () => await closeServer(parts, http) }
}

/**
 * Stops the server: no new requests, reads are cancelled, running inserts may end.
 *
 * An insert that takes longer ends as by kill -9: its client gets no answer, and repeats it with its token.
 */
async function closeServer (parts: ServerParts, { server }: HeldServer): Promise<void> {
  parts.gate.closing = new QueryError(236, 'The server is shutting down')
  const closed = once(server, 'close')
  server.close()
  server.closeIdleConnections()
  parts.queries.running.stopReads(parts.gate.closing)
  const ended = await endsWithin(INSERTS_MAY_TAKE_MS, () => parts.queries.running.size === 0)
  if (!ended) parts.gate.logger.warn({ queries: parts.queries.running.size }, 'stopping while queries are still running')
  server.closeAllConnections()
  await Promise.race([closed, pause(QUERIES_MAY_TAKE_MS)])
  parts.storage.failedWrites.close()
  await Promise.race([parts.queries.queryLog.close(), pause(QUERIES_MAY_TAKE_MS)])
  for (const pool of Object.values(parts.storage.pools)) pool.close()
  parts.storage.spool.close()
  if (ended) await parts.storage.engine.close()
}

/**
 * Replaces the process, for a query of an analyst that does not end: the engine cannot be made to drop it. Others get
 * an error that says so; inserts that run may end, and one that does not ends as by kill -9.
 */
async function restart (
  parts: ServerParts, options: ServerOptions, { stuck, stdinPipe }: { stuck: QueryRecord, stdinPipe: string }
): Promise<void> {
  if (parts.gate.closing !== undefined) return
  const { queries: { endedQueries, queryLog, running }, gate: { logger, logins } } = parts
  parts.gate.closing = new QueryError(236, 'The server restarts, because a query of user analyst did not end within its limit. Ask again')
  const { queryId, query } = stuck
  logger.error({ user: stuck.user, queryId, query: query.slice(0, 1000) },
    'a query did not end within its limit of time, as the engine does not look at the clock within one step: restarting, to end it')
  endedQueries.add(query)
  void queryLog.flush()
  running.stopReads(parts.gate.closing)
  const port = await options.http.listen(options)
  await endsWithin(INSERTS_MAY_TAKE_BEFORE_RESTART_MS, () => running.unanswered === 0)
  await Promise.race([queryLog.close(), pause(QUERIES_MAY_TAKE_MS)])
  // The kernel takes a while to end the old process: what it took in meanwhile would be cut without an answer.
  options.http.server.close()
  options.http.server.closeIdleConnections()
  await endsWithin(QUERIES_MAY_TAKE_MS, () => running.unanswered === 0)
  replaceProcess({
    port,
    env: endedQueries.variables,
    stdin: options.loginsFromStdin ? JSON.stringify(logins) : undefined,
    pipe: stdinPipe
  })
}

async function endsWithin (limitMs: number, isOver: () => boolean): Promise<boolean> {
  const end = performance.now() + limitMs
  while (!isOver()) {
    if (performance.now() > end) return false
    await pause(10)
  }
  return true
}
