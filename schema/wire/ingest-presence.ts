/**
 * What every ingest process says about itself in NATS: up to which moment of receipt all of its events are in the
 * stream, and what still waits with it. The pipeline proves the watermark from it.
 *
 * That a process exists is kept on the disk of NATS. Where it is, it answers when it is asked: an answer need not
 * outlive anybody, for without it nothing is proven.
 */

/** The NATS key-value bucket of these entries: one for each spool folder, and `ANNOUNCED_KEY`. */
export const INGEST_BUCKET = 'millrace_ingest'

/**
 * The highest watermark that the pipeline may reach, epoch milliseconds as text. The pipeline writes it before it
 * proves it; an ingest process that registers reads it afterwards and gives no event an earlier time of receipt.
 */
export const ANNOUNCED_KEY = 'announced'

/**
 * How far ahead of the proof the pipeline announces, in milliseconds: so long it need not write again. A process that
 * registers waits for its clock to pass that, this long at most, before it receives anything.
 */
export const ANNOUNCE_AHEAD_MS = 1500

/** Core NATS subject: the pipeline asks every ingest process where it is, and each answers an `IngestPosition`. */
export const ASK_SUBJECT = 'watermark.ask'

/** An ingest process renews its entry at least so often, in milliseconds. */
export const PRESENCE_RENEWED_MS = 4000

/** Key of a spool folder's entry. */
export function presenceKey (folderId: string): string {
  return `spool.${folderId}`
}

/**
 * The entry of a spool folder and of the process that has it. It is written before the process answers its first 200,
 * and removed when the process has stopped in an orderly way, or another one has emptied the folder of a dead process.
 * So an entry that is no longer renewed belongs to a process that died without a word, or cannot reach NATS.
 */
export interface IngestPresence {
  /** Prefix of its message ids and request ids. */
  processId: string
  host: string
  pid: number
  version: string
  /** Folder of the spool on its host. */
  folder: string
  /** When the process registered, and when it wrote this entry: epoch milliseconds of its host's clock. */
  since: number
  at: number
  /**
   * Every event of this folder's processes that was or will be acknowledged with an earlier `received_at` is in the
   * stream: epoch milliseconds. Never goes back. 0: nothing is known yet.
   */
  publishedThrough: number
  /** Groups of requests and messages received and not yet durable. */
  inFlight: number
  /** Bytes that wait in the spool; 0 when it is empty. */
  spoolBytes: number
  /** Moment of receipt before which no event waits in the spool; null when it is empty. */
  spooledSince: number | null
}

/** Where a process is, at the moment of its answer. */
export interface IngestPosition
  extends Pick<IngestPresence, 'processId' | 'publishedThrough' | 'inFlight' | 'spoolBytes'> {
  /** Of its spool. */
  folderId: string
}
