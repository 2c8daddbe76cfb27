/**
 * Holm's step-down adjustment: the chance of any false alarm among all comparisons stays below the level, whatever
 * their dependence (Holm 1979). R: `p.adjust(p, "holm")`. `null` values take no part and stay `null`.
 */
export function adjustForComparisons (pValues: readonly (number | null)[]): (number | null)[] {
  const order = pValues
    .flatMap((pValue, index) => pValue === null ? [] : [{ pValue, index }])
    .sort((a, b) => a.pValue - b.pValue)
  const adjusted: (number | null)[] = pValues.map(() => null)
  let largest = 0
  for (const [rank, { pValue, index }] of order.entries()) {
    largest = Math.max(largest, Math.min(1, (order.length - rank) * pValue))
    adjusted[index] = largest
  }
  return adjusted
}
