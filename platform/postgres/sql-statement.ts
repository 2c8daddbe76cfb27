/** A row as the driver returns it, where a call site does not name its type. */
export type Row = Record<string, any>

/** Rows of an answer; how many rows the statement returned or changed; what was done, such as `UPDATE`. */
export type Rows<T extends readonly object[]> = T & { count: number, command: string }

/** Sends a statement; the rows of its answer. */
export type Run = (statement: Statement<any>) => Promise<Rows<any>>

/**
 * SQL with its parameters. Inside another template it is a part of that; awaited, it runs, once: nothing is sent
 * before it is awaited.
 */
export class Statement<T extends readonly object[] = Row[]> implements Promise<Rows<T>> {
  readonly [Symbol.toStringTag] = 'Statement'
  /** Set by the sender, while the statement can be cancelled. */
  onCancel: (() => void) | undefined
  isCancelled = false
  readonly parts: readonly string[]
  readonly values: readonly unknown[]
  readonly #run: Run
  #answer: Promise<Rows<T>> | undefined

  /** @param parts  The text between values; a single part is sent as it is, with its own `$1`, `$2`, ... */
  constructor (parts: readonly string[], values: readonly unknown[], run: Run) {
    this.parts = parts
    this.values = values
    this.#run = run
  }

  /** Sends it now; every call returns the same answer. */
  execute (): Promise<Rows<T>> {
    this.#answer ??= this.#run(this)
    return this.#answer
  }

  then<A = Rows<T>, B = never> (
    onAnswer?: ((rows: Rows<T>) => A | PromiseLike<A>) | null, onError?: ((error: unknown) => B | PromiseLike<B>) | null
  ): Promise<A | B> {
    return this.execute().then(onAnswer, onError)
  }

  catch<B = never> (onError?: ((error: unknown) => B | PromiseLike<B>) | null): Promise<Rows<T> | B> {
    return this.execute().catch(onError)
  }

  finally (onEnd?: (() => void) | null): Promise<Rows<T>> {
    return this.execute().finally(onEnd)
  }

  /** Gives it up: it fails with MILLRACE_POSTGRES_CONNECTION_LOST, and the connection on which it runs is closed. */
  cancel (): void {
    this.isCancelled = true
    this.onCancel?.()
  }
}

/** Columns after INSERT INTO (of one row, or of several that have the columns of the first) or after SET. */
export class Columns {
  readonly rows: ReadonlyArray<Record<string, unknown>>

  constructor (rows: object | readonly object[]) {
    this.rows = [rows].flat() as Array<Record<string, unknown>>
  }
}

/**
 * Puts a statement and the statements in it together, with `$1`, `$2`, ... for values in their order.
 *
 * @throws {TypeError} for a value that is undefined: a bug of the caller, never a NULL.
 */
export function compile (statement: Statement<any>): { text: string, values: unknown[] } {
  const values: unknown[] = []
  return { text: append('', statement, values), values }
}

function append (text: string, { parts, values: given }: Statement<any>, values: unknown[]): string {
  text += parts[0]
  if (parts.length === 1) given.forEach((value) => addValue(value, values))
  for (let i = 1; i < parts.length; i++) {
    const value = given[i - 1]
    if (value instanceof Statement) text = append(text, value, values)
    else if (value instanceof Columns) text += columnsAfter(text, value.rows, values)
    else text += addValue(value, values)
    text += parts[i]
  }
  return text
}

function columnsAfter (text: string, rows: Columns['rows'], values: unknown[]): string {
  const names = Object.keys(rows[0] ?? {})
  if (names.length === 0) throw new TypeError(`no columns after: ${text}`)
  const quoted = names.map((name) => `"${name.replaceAll('"', '""')}"`)
  if (/\bSET\s*$/i.test(text)) return quoted.map((name, i) => `${name} = ${addValue(rows[0]![names[i]!], values)}`).join(', ')
  const lists = rows.map((row) => `(${names.map((name) => addValue(row[name], values)).join(', ')})`)
  return `(${quoted.join(', ')}) VALUES ${lists.join(', ')}`
}

function addValue (value: unknown, values: unknown[]): string {
  if (value === undefined) throw new TypeError(`parameter $${values.length + 1} is undefined`)
  // The driver would write a time in the zone of the process; in UTC it means the same for columns of every type.
  values.push(value instanceof Date ? value.toISOString() : value)
  return `$${values.length}`
}
