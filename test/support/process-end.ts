import type { TestContext } from './test-context.ts'

let isShared = false
const closing: (() => Promise<void>)[] = []

/** Called once by a process that runs several files. @returns what closes everything that they shared. */
export function shareProcess (): () => Promise<void> {
  isShared = true
  return async () => { for (const close of closing.toReversed()) await close() }
}

interface Made<T> {
  value: T
  close: () => Promise<void>
}

/**
 * Shares something dear between the files of this process: it is made when it is first asked for, and closed after the
 * last file. In a file that runs by itself it lives as long as the test that asked.
 */
export function createShared<T> (make: () => Promise<Made<T>>): (t: TestContext) => Promise<T> {
  let made: Promise<Made<T>> | undefined
  return async (t) => {
    if (made === undefined) {
      const making = made = make()
      const close = async (): Promise<void> => {
        made = undefined
        await making.then(async (each) => await each.close(), () => {})
      }
      if (isShared) closing.push(close)
      else t.teardown(close)
    }
    return (await made).value
  }
}

/** What tests use one after another, when the last one has left it as new. */
export interface Spares<T> {
  take: () => T | undefined
  /** Ends it where no further test comes. */
  give: (value: T) => Promise<void>
}

/** Keeps what the files of this process use one after another; `end` ends what is left after the last file. */
export function createSpares<T> (end: (value: T) => Promise<void>): (t: TestContext) => Promise<Spares<T>> {
  return createShared(async () => {
    const values: T[] = []
    let isOpen = true
    const give = async (value: T): Promise<void> => {
      if (isOpen) values.push(value)
      else await end(value)
    }
    const close = async (): Promise<void> => {
      isOpen = false
      for (const value of values) await end(value)
    }
    return { value: { take: () => values.pop(), give }, close }
  })
}
