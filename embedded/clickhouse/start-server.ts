/** The life of the server: from the parts that its requests share, through listening, to its orderly end. */
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { hostname } from 'node:os'
import path from 'node:path'
import { errorCode } from './query-errors.ts'
import type { Logger } from './json-log.ts'
import { type Options, StartError } from './options.ts'
import { loadAllowList } from './analyst/allow-list.ts'
import { openEngine } from './engine/engine.ts'
import { Definitions, repairDefinitions } from './engine/definitions.ts'
import { dropUnfinishedParts, listDetached } from './engine/drop-unfinished-parts.ts'
import { endWithoutClosing, FailedWrites } from './engine/failed-writes.ts'
import { forgetLostParts } from './insert/forget-lost-parts.ts'
import { prepareSystemDatabase, QueryLog } from './server-database.ts'
import { createGuardAnalyst } from './analyst/guard-analyst.ts'
import { ProcessList } from './process-list.ts'
import { KillQuery, ProgressSampler, RunningQueries } from './running-queries.ts'
import { ANALYST_PROFILE, GUARD_PROFILE, POOL_SIZES, OWNER_PROFILE } from './engine/profiles.ts'
import { ResultPipe } from './statement/run-select.ts'
import type { ServerParts } from './server-parts.ts'
import { buildServer } from './server.ts'
import { SessionPool } from './engine/session-pool.ts'
import { Spool } from './engine/body-spool.ts'
import { TokenFlusher } from './insert/flush-tokens.ts'
import {
  forgetFailedWrite, readFailedWrite, rememberFailedWrite, removePartsWithoutToken
} from './insert/remove-unanswered-parts.ts'

export interface ServerOptions extends Omit<Options, 'logLevel'> {
  logger: Logger
}

export interface RunningServer {
  port: number
  /** Stops taking requests, lets running inserts end, ends everything else. */
  close: () => Promise<void>
}

const NO_SETTINGS = new Map<string, string>()

/** The process promises to be gone within three seconds; the engine needs some of them to close its tables. */
const INSERTS_MAY_TAKE_MS = 2000
const QUERIES_MAY_TAKE_MS = 300

/**
 * Starts the server in this process: opens the engine and the spool, makes the pools of sessions, repairs what a crash
 * left, and listens. A process can have only one, because the engine binds its folder for good.
 *
 * @throws {StartError} when another process holds the folder, or the port is in use.
 */
export async function startServer (options: ServerOptions): Promise<RunningServer> {
  const { logger } = options
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
    owner: new SessionPool(engine, { name: 'the owner', ...POOL_SIZES.owner, settings: OWNER_PROFILE }),
    analyst: new SessionPool(engine, { name: 'user analyst', ...POOL_SIZES.analyst, settings: ANALYST_PROFILE }),
    guard: new SessionPool(engine, { name: 'the guard of analysts', ...POOL_SIZES.guard, settings: GUARD_PROFILE })
  }
  const allowList = loadAllowList()
  const control = await engine.openSession({}, NO_SETTINGS)
  const failedWrites = new FailedWrites(await engine.openSession({}, NO_SETTINGS), (failed, lastClean) => {
    rememberFailedWrite(engineDir, lastClean)
    endWithoutClosing(logger, { failed })
  }, (err) => endWithoutClosing(logger, { err }))
  await prepareSystemDatabase(control, options.database)
  await forgetLostParts(control, { scratchPath: path.join(engineDir, 'server-tokens.tmp'), logger })
  const running = new RunningQueries()
  const pipes = POOL_SIZES.owner.size + POOL_SIZES.analyst.size + POOL_SIZES.analyst.maxOverdue
  const parts: ServerParts = {
    engineDir,
    logger,
    engine,
    logins: options.logins,
    database: options.database,
    spool,
    tokens: await TokenFlusher.open(engineDir, logger),
    failedWrites,
    definitions: new Definitions(engineDir),
    pools,
    pipes: spool.makePipes(pipes).map((path) => new ResultPipe(path)),
    killQuery: new KillQuery(control),
    running,
    processes: await ProcessList.open(control, running),
    queryLog: new QueryLog(await engine.openSession({}, NO_SETTINGS), spool, logger),
    progress: new ProgressSampler(await engine.openSession({}, NO_SETTINGS), logger),
    sendTimeoutSeconds: options.sendTimeoutSeconds,
    allowList,
    guardAnalyst: createGuardAnalyst(pools.guard, engine, allowList),
    displayName: hostname(),
    closing: false
  }
  await dropUnfinishedParts(control, { before, since, logger })
  await failedWrites.check()
  forgetFailedWrite(engineDir)
  const server = buildServer(parts)
  const port = await listen(server, options)
  return { port, close: async () => await closeServer(parts, server) }
}

async function listen (server: Server, { host, port }: ServerOptions): Promise<number> {
  try {
    server.listen(port, host)
    await once(server, 'listening')
    return (server.address() as AddressInfo).port
  } catch (error) {
    const code = errorCode(error)
    if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
      throw new StartError(`--host: ${host} is no address of this machine`)
    }
    if (code !== 'EADDRINUSE') throw error
    throw new StartError(`port ${port} is in use by another program: choose a free one with --port`)
  }
}

/**
 * Stops the server: no new requests, reads are cancelled, running inserts may end.
 *
 * An insert that takes longer ends as by kill -9: its client gets no answer, and repeats it with its token.
 */
async function closeServer (parts: ServerParts, server: Server): Promise<void> {
  parts.closing = true
  const closed = once(server, 'close')
  server.close()
  server.closeIdleConnections()
  parts.running.stopReads()
  const ended = await endsWithin(INSERTS_MAY_TAKE_MS, () => parts.running.size === 0)
  if (!ended) parts.logger.warn({ queries: parts.running.size }, 'stopping while queries are still running')
  server.closeAllConnections()
  await Promise.race([closed, pause(QUERIES_MAY_TAKE_MS)])
  parts.failedWrites.close()
  await Promise.race([parts.queryLog.close(), pause(QUERIES_MAY_TAKE_MS)])
  for (const pool of Object.values(parts.pools)) pool.close()
  parts.spool.close()
  if (ended) await parts.engine.close()
}

async function endsWithin (limitMs: number, isOver: () => boolean): Promise<boolean> {
  const end = performance.now() + limitMs
  while (!isOver()) {
    if (performance.now() > end) return false
    await pause(10)
  }
  return true
}

async function pause (ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms))
}
