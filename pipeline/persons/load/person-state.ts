/** Properties of a person or a group by name; values as JSON has them. */
export type Properties = Record<string, unknown>

/** Anyone who has properties. */
export interface PropertyOwner {
  properties: Properties
  /** At least as many bytes as the properties have as JSON text; saves measuring them on each change. */
  sizeBound: number
  /** Differs from what is stored. */
  changed: boolean
}

/** A person while a batch is applied in memory. */
export interface PersonState extends PropertyOwner {
  readonly projectId: number
  /** Key in Postgres; null as long as the person exists in memory only. */
  id: number | null
  readonly uuid: string
  isIdentified: boolean
  /** Epoch milliseconds. */
  createdAt: number
  /** Set when the person was merged away: who has its ids now (perhaps merged on itself). */
  mergedInto: PersonState | null
  /**
   * Everybody merged into this person in this batch, also by way of others. Where two have a flag override for the
   * same flag, the earlier in this list wins, as it would if the merges had been stored one by one.
   */
  absorbed: PersonState[]
}

/** A group while a batch is applied in memory. */
export interface GroupState extends PropertyOwner {
  readonly projectId: number
  readonly groupType: string
  readonly groupTypeIndex: number
  readonly groupKey: string
  /** Epoch milliseconds. */
  readonly createdAt: number
}
