/** Postgres in memory, as far as the applier of persons asks it: transactions, locks, sessions. */
import type { StoredPerson } from '../../pipeline/persons/testing/start-persons-stores.ts'
import { ownerOfNow, type World } from './virtual-time.ts'
import { WORLD_BEGAN_AT } from './world-constants.ts'

type Row = Record<string, any>

const TABLES = ['persons', 'ids', 'progress', 'recent', 'outbox', 'projects'] as const

type Table = typeof TABLES[number]

/** Rows by table and key; null: deleted. */
type Rows = Map<Table, Map<unknown, Row | null>>

function newRows (): Rows {
  return new Map(TABLES.map((table) => [table, new Map()]))
}

/** What one connection does: a transaction, or one statement after another. */
export class Session {
  readonly owner = ownerOfNow()
  isInTransaction = false
  isOver = false
  /** What nobody else sees yet. */
  changes: Rows = new Map()
  /** Longest time without a statement in a transaction, in milliseconds. */
  idleLimitMs = Infinity
  statements = 0
  /** Called when the server ends it. */
  onEnd: () => void = () => {}
}

/** Interval of trying to get a lock that somebody else has, in milliseconds. */
const LOCK_POLL_MS = 100

export class FakePostgres {
  readonly sessions = new Set<Session>()
  /** Nobody can connect before that. */
  downUntil = 0
  readonly #world: World
  readonly #committed = newRows()
  readonly #locks = new Map<string, Session>()
  #serial = 0

  constructor (world: World) {
    this.#world = world
    this.#committed.get('projects')?.set(1, { version: 0 })
  }

  /** Epoch milliseconds. */
  now = (): number => WORLD_BEGAN_AT + this.#world.now

  nextId = (): number => ++this.#serial

  /** @throws when the session has ended meanwhile. */
  async execute (session: Session, text: string, values: readonly any[]): Promise<{ rows: Row[], command: string }> {
    if (session.isOver) throw new Error('the session has ended')
    const count = ++session.statements
    const { command, run } = parse(text)
    let rows: Row[] = []
    if (command === 'BEGIN') session.isInTransaction = true
    else if (command === 'COMMIT') this.#commit(session)
    else if (command === 'ROLLBACK') this.#forget(session)
    else rows = await run(this, session, values, text) ?? []
    if (session.isOver) throw new Error('the session has ended')
    if (!session.isInTransaction) this.#commit(session)
    else if (session.idleLimitMs < Infinity) {
      this.#world.serve(session.idleLimitMs, () => { if (session.statements === count) this.end(session) })
    }
    return { rows, command }
  }

  /** It ends, with all sessions, and takes new ones after a time. */
  restart (ms: number): void {
    this.#world.log('Postgres restarts')
    this.downUntil = this.#world.now + ms
    for (const session of this.sessions) this.end(session)
  }

  /** Ends a session: what it did not commit is gone. */
  end (session: Session): void {
    if (session.isOver) return
    session.isOver = true
    this.#forget(session)
    this.sessions.delete(session)
    session.onEnd()
  }

  /** All that the session sees of a table. */
  rows (table: Table, session: Session | null = null): [key: any, row: Row][] {
    const seen = new Map([...this.#committed.get(table)!, ...session?.changes.get(table) ?? []])
    return [...seen].filter((entry): entry is [unknown, Row] => entry[1] !== null)
  }

  find (table: Table, key: unknown, session: Session): Row | null {
    const change = session.changes.get(table)?.get(key)
    return change === undefined ? this.#committed.get(table)?.get(key) ?? null : change
  }

  /** @param row  Columns that change; null: it is deleted. */
  write (session: Session, table: Table, key: unknown, row: Row | null): void {
    const changes = session.changes.get(table) ?? new Map<unknown, Row | null>()
    session.changes.set(table, changes)
    changes.set(key, row === null ? null : { ...this.find(table, key, session), ...row })
  }

  /** @returns false when somebody else has it. */
  tryLock (session: Session, name: string): boolean {
    const holder = this.#locks.get(name)
    // The connection of a dead process is closed by its machine.
    if (holder?.owner?.isDead === true) this.end(holder)
    else if (holder !== undefined && holder !== session) return false
    this.#locks.set(name, session)
    return true
  }

  async lock (session: Session, name: string): Promise<void> {
    while (!this.tryLock(session, name)) {
      await new Promise<void>((resolve) => this.#world.after(LOCK_POLL_MS, resolve, null))
      if (session.isOver) throw new Error('the session has ended')
    }
  }

  isEmpty = (table: Table): boolean => this.#committed.get(table)!.size === 0

  /** The persons that are stored, as the model describes them. */
  persons (): StoredPerson[] {
    return this.rows('persons').map(([id, { uuid, properties, isIdentified, createdAt }]) => ({
      uuid, properties: JSON.parse(properties), isIdentified, createdAt,
      distinctIds: this.rows('ids').filter(([, { personId }]) => personId === id).map(([distinctId]) => distinctId)
    }))
  }

  #commit (session: Session): void {
    for (const [table, changes] of session.changes) {
      const rows = this.#committed.get(table)!
      for (const [key, row] of changes) if (row === null) rows.delete(key); else rows.set(key, row)
    }
    this.#forget(session)
  }

  #forget (session: Session): void {
    session.changes = new Map()
    session.isInTransaction = false
    session.idleLimitMs = Infinity
    for (const [name, holder] of this.#locks) if (holder === session) this.#locks.delete(name)
  }
}

/** @returns rows, if it has any. */
type Run = (postgres: FakePostgres, session: Session, values: readonly any[], sql: string) =>
Row[] | Promise<Row[]> | undefined | void

const nothing: Run = () => {}

/** What statements do, by how they begin. Warnings, groups, cohorts and deletions are not simulated. */
const STATEMENTS: readonly (readonly [begin: string, run: Run])[] = [
  ["SELECT set_config('idle_in", (_, session) => { session.idleLimitMs = 30_000 }],
  ['SELECT set_config(', nothing],
  ['INSERT INTO persons_progress', (postgres, session, [partition]) => {
    const none = { streamCreated: '', lastSequence: 0, lastPublishedUs: 0 }
    if (postgres.find('progress', partition, session) === null) postgres.write(session, 'progress', partition, none)
  }],
  ['SELECT stream_created', async (postgres, session, [partition], sql) => {
    if (sql.trimEnd().endsWith('FOR UPDATE')) await postgres.lock(session, `progress ${partition}`)
    return [postgres.find('progress', partition, session)].filter((row) => row !== null)
  }],
  ['UPDATE persons_progress', (postgres, session, [streamCreated, lastSequence, lastPublishedUs, partition]) => {
    postgres.write(session, 'progress', partition, { streamCreated, lastSequence, lastPublishedUs })
  }],
  ['WITH forgotten AS', (postgres, session, values) => {
    postgres.write(session, 'recent', postgres.nextId(), { fingerprints: values.at(-1) })
  }],
  ['SELECT id, fingerprints', (postgres, session, [, lastId]) => postgres.rows('recent', session)
    .filter(([id]) => id > lastId).slice(0, 50).map(([id, row]) => ({ id, ...row }))],
  ['INSERT INTO persons_projects', async (postgres, session, [[projectId]]) => {
    await postgres.lock(session, `project ${projectId}`)
    const before = postgres.find('projects', projectId, session)
    if (before === null) return []
    const version = Math.max(Math.floor(postgres.now() * 1000), before.version + 1)
    postgres.write(session, 'projects', projectId, { version })
    return [{ projectId, version }]
  }],
  ['SELECT d AS "distinctId"', (postgres, session, [, json]) => (JSON.parse(json) as { p: number, d: string }[])
    .flatMap(({ p, d }) => {
      const id = postgres.find('ids', d, session)?.personId
      const person = postgres.find('persons', id, session)
      if (person === null) return []
      const { properties, createdAt } = person
      return [{
        ...person, distinctId: d, id, projectId: p, bytes: properties.length, createdAt: new Date(createdAt)
      }]
    })],
  ['SELECT nextval', (postgres, _, [count]) => Array.from({ length: count }, () => ({ id: postgres.nextId() }))],
  ['INSERT INTO persons (', writePersons],
  ['UPDATE persons SET', writePersons],
  ['SELECT 1 FROM persons', nothing],
  ['UPDATE person_distinct_ids', (postgres, session, [json]) => {
    const moves = JSON.parse(json) as { from: number, into: number }[]
    return postgres.rows('ids', session).flatMap(([distinctId, { personId }]) => {
      const into = moves.find(({ from }) => from === personId)?.into
      if (into === undefined) return []
      postgres.write(session, 'ids', distinctId, { personId: into })
      return [{ distinctId, into }]
    })
  }],
  ['INSERT INTO cohort_members', nothing],
  ['DELETE FROM persons WHERE', (postgres, session, [ids]) => {
    for (const id of ids) postgres.write(session, 'persons', id, null)
  }],
  ['INSERT INTO person_distinct_ids', (postgres, session, [json]) => {
    for (const { d, id } of JSON.parse(json)) {
      if (postgres.find('ids', d, session) !== null) throw Object.assign(new Error(`there is an id ${d}`), { code: '23505' })
      postgres.write(session, 'ids', d, { personId: id })
    }
  }],
  ['INSERT INTO persons_outbox', (postgres, session, [target, rows, rowCount]) => {
    postgres.write(session, 'outbox', postgres.nextId(), { target, rows, rowCount })
  }],
  ['SELECT id, target', (postgres, session, [limit]) => {
    const taken: Row[] = []
    for (const [id, row] of postgres.rows('outbox', session)) {
      if (taken.length < limit && postgres.tryLock(session, `outbox ${id}`)) taken.push({ id, ...row })
    }
    return taken
  }],
  ['DELETE FROM persons_outbox', (postgres, session, [ids]) => {
    for (const id of ids) postgres.write(session, 'outbox', id, null)
  }],
  ['SELECT coalesce(sum(', (postgres, session) => [{ bytes: postgres.rows('outbox', session).length, seconds: 0 }]],
  ['INSERT INTO persons_warning', nothing],
  ['DELETE FROM persons_warning_minutes', nothing]
]

interface ParsedStatement { command: string, run: Run }

const parsed = new Map<string, ParsedStatement>()

function parse (text: string): ParsedStatement {
  const known = parsed.get(text)
  if (known !== undefined) return known
  const sql = text.replace(/\s+/g, ' ').trim()
  const run = STATEMENTS.find(([begin]) => sql.startsWith(begin))?.[1] ??
    (() => { throw new Error(`the simulation does not know the statement ${sql}`) })
  const statement = { command: sql.split(' ')[0] ?? '', run }
  parsed.set(text, statement)
  return statement
}

function writePersons (postgres: FakePostgres, session: Session, [json]: readonly any[]): void {
  for (const { id, uuid, properties, identified, created } of JSON.parse(json)) {
    // In the order of jsonb.
    const names = Object.keys(properties).sort((a, b) => a.length - b.length || (a < b ? -1 : 1))
    postgres.write(session, 'persons', id, {
      ...(uuid !== undefined && { uuid }), isIdentified: identified, createdAt: created,
      properties: JSON.stringify(Object.fromEntries(names.map((name) => [name, properties[name]])))
    })
  }
}
