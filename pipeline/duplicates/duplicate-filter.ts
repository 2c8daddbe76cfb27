import { type BatchRange } from '../partitions/partition-record.ts'
import { type PartitionMessage } from '../writer/read/partition-message.ts'

/** Knows which events of a partition are stored already. */
export interface DuplicateFilter {
  /**
   * Decides which rows of the messages must be left out of their insert: duplicates of stored events, and second ones
   * within the messages. Every row that stays counts as stored from now on.
   *
   * @param options.lookUpAll  Trust nothing that is remembered; ask ClickHouse about every row.
   */
  decide: (messages: readonly PartitionMessage[], options: { lookUpAll: boolean }) => Promise<BatchRange['leftOut']>
  /** Takes the events of messages as stored, whose decision was made before. */
  remember: (messages: readonly PartitionMessage[]) => void
}
