/**
 * The schemas and rules of question `edge`, for the events of `prepare-events.ts` with `SCHEMAS` names, and what each
 * must do with them, determined independently from the events.
 */

/** As many as a project may have: each event has one. */
export const SCHEMAS = 500

export const RULES = 50

/** Of the rules, those that name an event; the others look at every one. */
const NAMING_RULES = 40

/**
 * One schema allows less than its events have now and then. A request with such an event, or a dropped one, waits up to
 * 0.1 s until that is noted, so only a few are to have one: otherwise waiting would be measured.
 */
const STRICT = 0
const MOST_IN_STRICT_CART = 10

/** One schema in this many has a pattern, whose engine takes longer than other checks. */
const PATTERN_EVERY = 10

/** An event of `prepare-events.ts`, as far as schemas and rules decide by it. */
export interface SentEvent {
  event: string
  properties: {
    plan: string
    category: string
    is_member: boolean
    cart_size: number
    quantity: number
    $screen_width: number
    $screen_height: number
  }
}

/** What becomes of an event. */
export interface Fate {
  meetsSchema: boolean
  /** Rules that drop or change it, by name: when one drops it, only that one. */
  rules: string[]
  isDropped: boolean
}

/**
 * A schema that is active from the beginning, as the management API takes it. Properties mostly mean the same in all
 * events, as those of one product do; two have bounds of their own.
 */
export function schemaOf (index: number): { event: string, mode: string, active_version: 1, schema: object } {
  const checks: [string, object][] = [
    ['amount', { type: 'number', minimum: 0, maximum: 1000 + index }],
    ['quantity', { type: 'integer', minimum: 1, maximum: 5 }],
    ['category', { enum: ['shoes', 'shirts', 'books', 'garden', 'kitchen', 'sale'] }],
    ['is_member', { type: 'boolean' }],
    ['cart_size', { type: 'integer', minimum: 0, ...index === STRICT && { maximum: MOST_IN_STRICT_CART } }],
    ['$current_url', { type: 'string', minLength: 8, maxLength: 2000 + index }],
    ['$browser', { type: ['string', 'null'] }]
  ]
  const properties = {
    // Some say more than others.
    ...Object.fromEntries(checks.slice(index % 4)),
    plan: { enum: ['free', 'pro'] },
    product_id: { type: 'string', ...index % PATTERN_EVERY === 1 && { pattern: '^sku-[0-9]{1,6}$' } }
  }
  return {
    event: `event ${index}`,
    mode: 'observe',
    active_version: 1,
    schema: { required: ['plan', 'amount', 'product_id'], properties }
  }
}

interface Rule {
  name: string
  condition: object
  actions: object[]
}

/** A rule that is active from the beginning, as the management API takes it. */
export function ruleOf (index: number): Rule & { active_version: 1 } {
  return { ...index < NAMING_RULES ? ruleOfEvent(index) : LOOKING_AT_ALL[index - NAMING_RULES]!, active_version: 1 }
}

function ruleOfEvent (index: number): Rule {
  return {
    name: `members of event ${index}`,
    condition: { type: 'AND', values: [{ type: 'event', value: `event ${index}` }, property('is_member', 'true')] },
    actions: [{ type: 'set_property', property: 'segment', value: 'members' }]
  }
}

const property = (key: string, value: string, operator = 'exact'): object => ({ type: 'property', key, operator, value })
const allOf = (...values: object[]): object => ({ type: 'AND', values })
const DROP = [{ type: 'drop' }]

/** Most are there for what never comes here, as filters are: the staging site, load tests, an office, old servers. */
const LOOKING_AT_ALL: readonly Rule[] = [
  { name: 'staging', condition: property('$host', 'staging', 'icontains'), actions: DROP },
  { name: 'load tests', condition: { type: 'distinct_id', operator: 'starts_with', value: 'load-test-' }, actions: DROP },
  { name: 'office', condition: { type: 'ip', value: ['10.0.0.0/8', '2001:db8::/32'] }, actions: DROP },
  {
    name: 'old servers',
    condition: allOf({ type: 'sdk', value: 'posthog-python' }, { type: 'sdk_version', operator: 'semver_lt', value: '3.0.0' }),
    actions: DROP
  },
  { name: 'headless', condition: property('$browser', 'HeadlessChrome'), actions: DROP },
  { name: 'debugging', condition: { type: 'property', key: '$debug', operator: 'is_set' }, actions: DROP },
  { name: 'guests', condition: { type: 'OR', values: [property('plan', 'guest'), property('plan', 'trial')] }, actions: DROP },
  {
    name: 'full carts on small screens',
    condition: allOf(property('cart_size', '11'), property('quantity', '5'), property('$screen_width', '1280'), property('$screen_height', '720')),
    actions: DROP
  },
  { name: 'garden', condition: property('category', 'garden'), actions: [{ type: 'remove_property', property: 'utm_source' }] },
  {
    name: 'sessions of the best',
    condition: allOf(property('plan', 'pro'), property('is_member', 'true')),
    actions: [{ type: 'hash_property', property: '$session_id' }]
  }
]

/** What schemas and rules, each alone, must do with an event; no rule changes what a schema asks for. */
export function fateOf ({ event, properties }: SentEvent): Fate {
  const index = Number(event.slice('event '.length))
  const { plan, category, is_member: isMember, cart_size: cartSize, quantity } = properties
  const { $screen_width: width, $screen_height: height } = properties
  const meetsSchema = index !== STRICT || cartSize <= MOST_IN_STRICT_CART
  const changedBy = [
    ...index < NAMING_RULES && isMember ? [`members of event ${index}`] : [],
    ...category === 'garden' ? ['garden'] : [],
    ...plan === 'pro' && isMember ? ['sessions of the best'] : []
  ]
  // What was changed before is dropped all the same, and counted as dropped only.
  const isDropped = cartSize === 11 && quantity === 5 && width === 1280 && height === 720
  return { meetsSchema, rules: isDropped ? ['full carts on small screens'] : changedBy, isDropped }
}
