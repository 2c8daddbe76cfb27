import { EVENT_COLUMNS, type EventColumn } from '../../schema/wire/event-row.ts'
import type { EventRow } from '../event.ts'
import { ColumnBuffer, LowCardinalityColumn } from './columns.ts'

const COLUMNS: readonly EventColumn[] = EVENT_COLUMNS

/** Bytes a row takes besides its strings: numbers, lengths, indexes. */
const FIXED_ROW_BYTES = 80

/**
 * Builds one Native block of `events`, column by column as rows are appended:
 *
 * ```
 * varint columns | varint rows | (name | type | data) for each column
 * ```
 *
 * Groups and promoted columns that are empty in every row are omitted: ClickHouse fills them in, and pays about 10 us
 * for each column of each block, which is a good part of its work when messages are small. Columns with a DEFAULT in
 * the table are always there: one that is missing is computed for each block, in about 0.1 ms.
 *
 * Append never fails half-way: all values of a row exist before the first column is touched.
 */
export class BlockEncoder {
  #rows = 0
  /** Of dictionaries and of promoted columns that have none. */
  #textBytes = 0
  readonly #out = new ColumnBuffer()
  readonly #projectId = new ColumnBuffer()
  readonly #uuid = new ColumnBuffer()
  readonly #event = new LowCardinalityColumn()
  readonly #distinctId = new ColumnBuffer()
  readonly #timestamp = new ColumnBuffer()
  readonly #receivedAt = new ColumnBuffer()
  readonly #groupOffsets = new ColumnBuffer()
  readonly #groupKeys = new ColumnBuffer()
  readonly #groupValues = new ColumnBuffer()
  #groups = 0
  readonly #properties = new ColumnBuffer()
  readonly #propertyTypes = new LowCardinalityColumn()
  readonly #schemaVersion = new ColumnBuffer()
  readonly #isBot = new ColumnBuffer()
  readonly #sampleWeight = new ColumnBuffer()
  /** Of the rows that have it, which are few or none. */
  readonly #withoutPerson: number[] = []
  readonly #promotedColumns: readonly EventColumn[] = COLUMNS.filter((column) => column.promotes !== undefined)
  readonly #promoted = this.#promotedColumns.map((column) =>
    column.type === 'LowCardinality(String)' ? new LowCardinalityColumn() : new ColumnBuffer())

  readonly #fixed = [this.#projectId, this.#uuid, this.#event, this.#distinctId, this.#timestamp, this.#receivedAt,
    this.#groupOffsets, this.#groupKeys, this.#groupValues, this.#properties, this.#propertyTypes,
    this.#schemaVersion, this.#isBot, this.#sampleWeight]

  get rows (): number {
    return this.#rows
  }

  /** About the size of the block before compression: the bytes of all texts, and so much for each row. */
  get bytes (): number {
    return this.#properties.length + this.#distinctId.length + this.#groupKeys.length + this.#groupValues.length +
      this.#textBytes + this.#rows * FIXED_ROW_BYTES
  }

  /** Bytes of memory that is kept from frame to frame. */
  get capacity (): number {
    return [...this.#fixed, ...this.#promoted].reduce((sum, column) =>
      sum + (column instanceof ColumnBuffer ? column.capacity : 0), this.#out.capacity)
  }

  /** The uuid column as the block holds it, 16 bytes a row: what fingerprints are computed from. */
  get uuids (): DataView {
    return this.#uuid.view
  }

  /** Four bytes a row. */
  get projectIds (): DataView {
    return this.#projectId.view
  }

  get events (): LowCardinalityColumn {
    return this.#event
  }

  /** A varint length and the bytes of each row's distinct id. */
  get distinctIds (): Buffer {
    return this.#distinctId.bytes
  }

  /** Epoch milliseconds, a signed 64-bit integer a row. */
  get timestamps (): DataView {
    return this.#timestamp.view
  }

  append (row: EventRow): void {
    this.#projectId.writeUInt32(row.projectId)
    this.#appendUuid(row)
    this.#textBytes += this.#event.append(row.event)
    this.#distinctId.writeString(row.distinctId)
    this.#timestamp.writeInt64(row.timestamp)
    this.#receivedAt.writeInt64(row.receivedAt)
    this.#appendGroups(row.groups)
    this.#properties.writeString(row.properties)
    this.#textBytes += this.#propertyTypes.append(row.propertyTypes)
    this.#appendPromoted(row.promoted)
    this.#schemaVersion.writeInt32(row.schemaVersion)
    this.#isBot.writeUInt8(row.isBot ? 1 : 0)
    this.#sampleWeight.writeFloat64(row.sampleWeight)
    if (row.withoutPerson === true) this.#withoutPerson.push(this.#rows)
    this.#rows++
  }

  /** The finished block, valid until the next append or reset. */
  finish (): Buffer {
    const out = this.#out
    out.reset()
    const columns = COLUMNS.filter((column) => !this.#isEmpty(column))
    out.writeVarint(columns.length)
    out.writeVarint(this.#rows)
    for (const column of columns) {
      out.writeString(column.name)
      out.writeString(column.type)
      this.#writeColumn(column)
    }
    return out.bytes
  }

  reset (): void {
    this.#rows = 0
    this.#textBytes = 0
    this.#groups = 0
    this.#withoutPerson.length = 0
    for (const column of this.#fixed) column.reset()
    for (const column of this.#promoted) column.reset()
    this.#out.reset()
  }

  #appendUuid ({ uuid }: EventRow): void {
    const column = this.#uuid
    column.reserve(16)
    const view = column.view
    const at = column.length
    view.setUint32(at, uuid.b, true)
    view.setUint32(at + 4, uuid.a, true)
    view.setUint32(at + 8, uuid.d, true)
    view.setUint32(at + 12, uuid.c, true)
    column.length = at + 16
  }

  #appendGroups (groups: readonly string[]): void {
    for (let i = 0; i < groups.length; i += 2) {
      this.#groupKeys.writeString(groups[i] as string)
      this.#groupValues.writeString(groups[i + 1] as string)
      this.#groups++
    }
    this.#groupOffsets.writeInt64(this.#groups)
  }

  #appendPromoted (values: readonly string[]): void {
    const columns = this.#promoted
    for (let i = 0; i < columns.length; i++) {
      const column = columns[i] as ColumnBuffer | LowCardinalityColumn
      const value = values[i] as string
      if (column instanceof LowCardinalityColumn) {
        this.#textBytes += column.append(value)
      } else {
        const before = column.length
        column.writeString(value)
        // The length of an empty one is among the fixed bytes of the row.
        this.#textBytes += column.length - before - 1
      }
    }
  }

  #isEmpty (column: EventColumn): boolean {
    if (column.name === 'groups') return this.#groups === 0
    if (column.name === 'without_person') return this.#withoutPerson.length === 0
    if (column.promotes === undefined || column.hasDefault === true) return false
    const promoted = this.#promoted[this.#promotedColumns.indexOf(column)]
    // An empty string is a length of zero, which is one byte.
    return promoted instanceof LowCardinalityColumn ? promoted.isEmpty : promoted?.length === this.#rows
  }

  #writeColumn (column: EventColumn): void {
    const out = this.#out
    switch (column.name) {
      case 'project_id': return out.writeBytes(this.#projectId.bytes)
      case 'uuid': return out.writeBytes(this.#uuid.bytes)
      case 'event': return this.#event.writeTo(out)
      case 'distinct_id': return out.writeBytes(this.#distinctId.bytes)
      case 'timestamp': return out.writeBytes(this.#timestamp.bytes)
      case 'received_at': return out.writeBytes(this.#receivedAt.bytes)
      case 'properties': return out.writeBytes(this.#properties.bytes)
      case 'property_types': return this.#propertyTypes.writeTo(out)
      case 'schema_version': return out.writeBytes(this.#schemaVersion.bytes)
      case 'is_bot': return out.writeBytes(this.#isBot.bytes)
      case 'sample_weight': return out.writeBytes(this.#sampleWeight.bytes)
      case 'without_person': return out.writeBytes(markRows(this.#withoutPerson, this.#rows))
      case 'groups':
        out.writeBytes(this.#groupOffsets.bytes)
        out.writeBytes(this.#groupKeys.bytes)
        return out.writeBytes(this.#groupValues.bytes)
    }
    const promoted = this.#promoted[this.#promotedColumns.indexOf(column)]
    if (promoted instanceof LowCardinalityColumn) promoted.writeTo(out)
    else if (promoted !== undefined) out.writeBytes(promoted.bytes)
  }
}

/** A column of type Bool that is true in these rows. */
function markRows (marked: readonly number[], rows: number): Uint8Array {
  const column = new Uint8Array(rows)
  for (const row of marked) column[row] = 1
  return column
}
