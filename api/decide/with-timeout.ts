/**
 * Waits for work, but not indefinitely. The work itself goes on; who can cancel it does.
 *
 * @throws when it took longer than `timeoutMs`; what the work throws passes on.
 */
export async function withTimeout<T> (timeoutMs: number, work: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs)
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
