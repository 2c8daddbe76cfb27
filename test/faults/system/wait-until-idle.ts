/**
 * Like `Promise.all`, but rejects only when all are acknowledged: nothing is still being started behind the back of
 * anyone who cleans up.
 */
export async function waitUntilIdle<T extends readonly unknown[]> (
  promises: { readonly [K in keyof T]: Promise<T[K]> }
): Promise<T> {
  const results = await Promise.allSettled(promises)
  const failed = results.find((result) => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
  return results.map((result) => (result as PromiseFulfilledResult<unknown>).value) as unknown as T
}
