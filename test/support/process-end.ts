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
