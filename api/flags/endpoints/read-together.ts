import { errorCode } from '../../../engines/errors.ts'
import type { CancellableWork } from './circuit-breaker.ts'

/** Reads the answers to several questions, in their order. */
export type ReadAll<Question, Answer> = (questions: readonly Question[]) => CancellableWork<readonly Answer[]>

export interface ReadTogetherOptions {
  /** Questions of one reading at most. */
  maxQuestions: number
  /** Readings under way at most; what is asked meanwhile shares the next one. */
  maxReadings: number
}

interface Asker<Question, Answer> {
  question: Question
  resolve: (answer: Answer) => void
  reject: (error: unknown) => void
  cancel: () => void
}

/**
 * Lets questions that are asked at the same moment share one reading: a statement costs the database and this process
 * about the same for one row as for thirty.
 *
 * A question alone is read at the end of the turn of the event loop in which it was asked. A reading is cancelled when
 * nobody waits for it any more. When the database refuses the values of a reading (SQLSTATE class 22), its questions
 * are read one by one, so that only the one at fault fails.
 */
export function readTogether<Question, Answer> (
  readAll: ReadAll<Question, Answer>, { maxQuestions, maxReadings }: ReadTogetherOptions
): (question: Question) => CancellableWork<Answer> {
  const waiting = new Set<Asker<Question, Answer>>()
  let readings = 0
  let isScheduled = false

  return function read (question) {
    const { promise: answer, resolve, reject } = Promise.withResolvers<Answer>()
    const asker = { question, resolve, reject, cancel: () => { waiting.delete(asker) } }
    waiting.add(asker)
    schedule()
    return { answer, cancel: () => asker.cancel() }
  }

  function schedule (): void {
    if (isScheduled || waiting.size === 0 || readings >= maxReadings) return
    isScheduled = true
    setImmediate(() => {
      isScheduled = false
      while (waiting.size > 0 && readings < maxReadings) void readFor(take())
    })
  }

  function take (): Asker<Question, Answer>[] {
    const askers = [...waiting.values().take(maxQuestions)]
    for (const asker of askers) waiting.delete(asker)
    return askers
  }

  async function readFor (askers: readonly Asker<Question, Answer>[]): Promise<void> {
    readings++
    try {
      const { answer, cancel } = readAll(askers.map(({ question }) => question))
      let interested = askers.length
      for (const asker of askers) {
        asker.cancel = () => {
          asker.cancel = () => {}
          if (--interested === 0) cancel()
        }
      }
      const answers = await answer
      askers.forEach((asker, i) => asker.resolve(answers[i] as Answer))
    } catch (error) {
      if (askers.length > 1 && isRefusedValue(error)) {
        await Promise.all(askers.map(async (asker) => await readFor([asker])))
      } else {
        for (const asker of askers) asker.reject(error)
      }
    } finally {
      readings--
      schedule()
    }
  }
}

function isRefusedValue (error: unknown): boolean {
  return errorCode(error).startsWith('22')
}
